// Pools on the CPU that are not worth more: of three axes of space, with Indices, LpPool. Plain
// loops over the entries of every window.
//
// MaxPool reserves which entry of its window each output took. NaN wins.
#include <array>
#include <cmath>
#include <vector>

#include "ops/activation_kernel.h"
#include "ops/cpu/pool_taps.h"
#include "ops/operators/pool.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

// Depth, rows, columns: axes that are not there are one entry.
using PoolAxes = std::array<AxisWindow, 3>;

PoolAxes three_axes(const std::vector<AxisWindow>& windows) {
  PoolAxes axes{};
  std::copy(windows.begin(), windows.end(), axes.end() - static_cast<int>(windows.size()));
  return axes;
}

int64_t input_volume(const PoolAxes& axes) { return axes[0].input * axes[1].input * axes[2].input; }
int64_t output_volume(const PoolAxes& axes) {
  return axes[0].output * axes[1].output * axes[2].output;
}

// Calls visit(at, entry) for every entry of window `o` that lies on the input.
template <class Visit>
void for_entries_of_window(const PoolAxes& axes, int64_t o, const Visit& visit) {
  const Taps z = taps(axes[0], o / axes[2].output / axes[1].output);
  const Taps y = taps(axes[1], o / axes[2].output % axes[1].output);
  const Taps x = taps(axes[2], o % axes[2].output);
  const auto at = [&](const Taps& taps, size_t axis, int64_t k) {
    return taps.at + (k - taps.first) * axes[axis].dilation;
  };
  for (int64_t kz = z.first; kz < z.last; ++kz)
    for (int64_t ky = y.first; ky < y.last; ++ky) {
      const int64_t row = (at(z, 0, kz) * axes[1].input + at(y, 1, ky)) * axes[2].input;
      const int64_t entry = (kz * axes[1].kernel + ky) * axes[2].kernel;
      for (int64_t kx = x.first; kx < x.last; ++kx) visit(row + at(x, 2, kx), entry + kx);
    }
}

class GeneralPoolKernel final : public ActivationKernel {
 public:
  explicit GeneralPoolKernel(const KernelSite& site)
      : ActivationKernel(site.op), pool_(site.as<Pool>()) {
    if (site.iterations.empty()) return;
    std::vector<AxisWindow> local;
    const std::vector<AxisWindow>& whole = pool_.windows();
    for (size_t i = 0; i < whole.size(); ++i) {
      const IndexSet& set = site.iterations.axes[2 + i];
      local.push_back(local_window(whole[i], set));
      first_[3 - whole.size() + i] = set.ranges(whole[i].output).front().begin;
    }
    axes_ = three_axes(local);
    whole_ = three_axes(whole);
  }

  void forward(const Call& call) override {
    const float* x = call.inputs[0].f32();
    float* y = call.outputs[0].f32();
    for_planes_of(call.outputs[0], [&](int64_t plane) {
      for (int64_t o = 0; o < output_volume(axes_); ++o) {
        const int64_t to = plane * output_volume(axes_) + o;
        const float* from = x + plane * input_volume(axes_);
        if (pool_.kind() == Pool::Kind::kMax)
          take_largest(call, plane, o, from, to);
        else if (pool_.kind() == Pool::Kind::kAverage)
          y[to] = average(from, o);
        else
          y[to] = norm(from, o);
      }
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const float* dy = call.output_gradients[0].f32();
    for (const GradientTarget& target : targets)
      for_planes_of(target.to, [&](int64_t plane) {
        float* to = target.to.f32() + plane * input_volume(axes_);
        std::fill_n(to, input_volume(axes_), 0.0F);
        for (int64_t o = 0; o < output_volume(axes_); ++o) {
          const int64_t from = plane * output_volume(axes_) + o;
          if (pool_.kind() == Pool::Kind::kMax)
            give_back(taken(call, from), o, dy[from], to);
          else if (pool_.kind() == Pool::Kind::kAverage)
            for_entries_of_window(axes_, o, [&, each = dy[from] / counted(o)](int64_t at, int64_t) {
              to[at] += each;
            });
          else
            norm_gradient(call, plane, o, dy[from], to);
        }
      });
  }

 private:
  template <class Work>
  void for_planes_of(const TensorView& tensor, const Work& work) const {
    if (tensor.elements() == 0) return;
    const int64_t least = 1 + simd::kLeastElements / input_volume(axes_);
    simd::parallel_pieces(tensor.shape[0] * tensor.shape[1], least,
                          [&](int64_t begin, int64_t end) {
                            for (int64_t plane = begin; plane < end; ++plane) work(plane);
                          });
  }

  void take_largest(const Call& call, int64_t plane, int64_t o, const float* x, int64_t to) const {
    float best = 0;
    int64_t number = -1;
    int64_t place = 0;
    for_entries_of_window(axes_, o, [&](int64_t at, int64_t entry) {
      const float value = x[at];
      if (number >= 0 && !(value > best) && value == value) return;
      best = value;
      number = entry;
      place = at;
    });
    call.outputs[0].f32()[to] = best;
    if (!call.reserve.empty() && pool_.index_bytes() == 1)
      reinterpret_cast<uint8_t*>(call.reserve.data())[to] = static_cast<uint8_t>(number);
    else if (!call.reserve.empty())
      reinterpret_cast<int32_t*>(call.reserve.data())[to] = static_cast<int32_t>(number);
    if (call.outputs.size() > 1 && call.outputs[1].data != nullptr)
      call.outputs[1].i64()[to] = plane * input_volume(axes_) + in_storage_order(place);
  }

  // Of a place in a plane.
  int64_t in_storage_order(int64_t place) const {
    if (!pool_.columns_first()) return place;
    const int64_t x = place % axes_[2].input;
    const int64_t y = place / axes_[2].input % axes_[1].input;
    const int64_t z = place / axes_[2].input / axes_[1].input;
    return (x * axes_[1].input + y) * axes_[0].input + z;
  }

  int64_t taken(const Call& call, int64_t output) const {
    if (pool_.index_bytes() == 1)
      return reinterpret_cast<const uint8_t*>(call.reserve.data())[output];
    return reinterpret_cast<const int32_t*>(call.reserve.data())[output];
  }

  void give_back(int64_t number, int64_t o, float dy, float* to) const {
    for_entries_of_window(axes_, o, [&](int64_t at, int64_t entry) {
      if (entry == number) to[at] += dy;
    });
  }

  // What window `o` is averaged over: what lies within the whole's padded input, or on the input.
  float counted(int64_t o) const {
    int64_t count = 0;
    if (!pool_.counts_padding()) {
      for_entries_of_window(axes_, o, [&](int64_t, int64_t) { ++count; });
      return static_cast<float>(count);
    }
    count = 1;
    for (size_t i = 3; i-- > 0;) {
      const AxisWindow& axis = whole_[i];
      const int64_t start = (first_[i] + o % axes_[i].output) * axis.stride;
      const int64_t room = axis.pad_begin + axis.input + axis.pad_end - start;
      count *= std::min(axis.kernel, (room + axis.dilation - 1) / axis.dilation);
      o /= axes_[i].output;
    }
    return static_cast<float>(count);
  }

  float average(const float* x, int64_t o) const {
    float sum = 0;
    for_entries_of_window(axes_, o, [&](int64_t at, int64_t) { sum += x[at]; });
    return sum / counted(o);
  }

  float norm(const float* x, int64_t o) const {
    const auto p = static_cast<float>(pool_.power());
    float sum = 0;
    for_entries_of_window(axes_, o,
                          [&](int64_t at, int64_t) { sum += std::pow(std::abs(x[at]), p); });
    return std::pow(sum, 1.0F / p);
  }

  // d y / d x = sign(x) * (|x| / y)^(p-1); 0 where y is.
  void norm_gradient(const Call& call, int64_t plane, int64_t o, float dy, float* to) const {
    const float* x = call.inputs[0].f32() + plane * input_volume(axes_);
    const float y = call.outputs[0].f32()[plane * output_volume(axes_) + o];
    const auto p = static_cast<float>(pool_.power());
    if (y == 0) return;
    for_entries_of_window(axes_, o, [&](int64_t at, int64_t) {
      if (x[at] != 0)
        to[at] += std::copysign(1.0F, x[at]) * dy * std::pow(std::abs(x[at]) / y, p - 1);
    });
  }

  const Pool& pool_;
  PoolAxes axes_{};  // of this part
  PoolAxes whole_{};
  std::array<int64_t, 3> first_{};  // of its windows, among the whole's
};

std::unique_ptr<Kernel> make_general_pool(const KernelSite& site) {
  return std::make_unique<GeneralPoolKernel>(site);
}

}  // namespace

KernelEntries register_general_pool() {
  return {{"LpPool", make_general_pool},
          {"MaxPoolWithIndices", make_general_pool},
          {"MaxPoolOfVolumes", make_general_pool},
          {"AveragePoolOfVolumes", make_general_pool}};
}

}  // namespace kerf::ops::cpu
