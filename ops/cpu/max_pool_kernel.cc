// MaxPool on the CPU. The forward pass reserves which entry of its window each output took, so that
// the gradient reads neither input nor output. NaN wins, so that a diverged run shows.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ops/cpu/activation_kernel.h"
#include "ops/cpu/pool_taps.h"
#include "ops/operators/pool.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

// 2x2 windows side by side, the common case, are done in vectors of kLanes windows; the last vector
// of a row overlaps the one before, so that there is no rest. The compiler would not do it by
// itself.
template <int kLanes>
struct Vector {
  typedef float Floats __attribute__((vector_size(kLanes * 4)));
  typedef int Ints __attribute__((vector_size(kLanes * 4)));
  typedef uint8_t Bytes __attribute__((vector_size(kLanes)));

  // Every second lane of two vectors in a row, from `first` on.
  [[gnu::always_inline]] static inline void every_second(int first, Ints& lanes) {
    int numbers[kLanes];
    for (int i = 0; i < kLanes; ++i) numbers[i] = first + 2 * i;
    std::memcpy(&lanes, numbers, sizeof lanes);
  }
  // Lanes of two vectors in turn, from `first` on: 0, kLanes, 1, kLanes + 1 ...
  [[gnu::always_inline]] static inline void zipped(int first, Ints& lanes) {
    int numbers[kLanes];
    for (int i = 0; i < kLanes; ++i) numbers[i] = first + i / 2 + i % 2 * kLanes;
    std::memcpy(&lanes, numbers, sizeof lanes);
  }
};

// Takes `value` where it is larger, or NaN.
template <class Floats, class Ints>
[[gnu::always_inline]] inline void keep_larger(const Floats& value, int entry, Floats& best,
                                               Ints& index) {
  const Ints take = (value > best) | (value != value);
  best = take ? value : best;
  index = take ? Ints{} + entry : index;
}

template <int kLanes>
[[gnu::always_inline]] inline void max_of_2x2(const float* top, const float* bottom, float* y,
                                              uint8_t* index) {
  using V = Vector<kLanes>;
  typename V::Floats rows[4];
  std::memcpy(&rows[0], top, 2 * sizeof rows[0]);
  std::memcpy(&rows[2], bottom, 2 * sizeof rows[0]);
  typename V::Ints even{};
  typename V::Ints odd{};
  V::every_second(0, even);
  V::every_second(1, odd);
  auto best = __builtin_shuffle(rows[0], rows[1], even);
  typename V::Ints entry{};
  keep_larger(__builtin_shuffle(rows[0], rows[1], odd), 1, best, entry);
  keep_larger(__builtin_shuffle(rows[2], rows[3], even), 2, best, entry);
  keep_larger(__builtin_shuffle(rows[2], rows[3], odd), 3, best, entry);
  const auto narrow = __builtin_convertvector(entry, typename V::Bytes);
  std::memcpy(y, &best, sizeof best);
  std::memcpy(index, &narrow, sizeof narrow);
}

template <int kLanes>
[[gnu::always_inline]] inline void max_gradient_of_2x2(const float* dy, const uint8_t* index,
                                                       float* top, float* bottom) {
  using V = Vector<kLanes>;
  typename V::Bytes narrow;
  typename V::Floats gradient;
  std::memcpy(&narrow, index, sizeof narrow);
  std::memcpy(&gradient, dy, sizeof gradient);
  const auto entry = __builtin_convertvector(narrow, typename V::Ints);
  const typename V::Floats zero{};
  typename V::Floats parts[4];
  for (int i = 0; i < 4; ++i) parts[i] = entry == i ? gradient : zero;
  typename V::Ints first{};
  typename V::Ints second{};
  V::zipped(0, first);
  V::zipped(kLanes / 2, second);
  const typename V::Floats rows[4] = {
      __builtin_shuffle(parts[0], parts[1], first), __builtin_shuffle(parts[0], parts[1], second),
      __builtin_shuffle(parts[2], parts[3], first), __builtin_shuffle(parts[2], parts[3], second)};
  std::memcpy(top, &rows[0], 2 * sizeof rows[0]);
  std::memcpy(bottom, &rows[2], 2 * sizeof rows[0]);
}

// Calls row(lanes, first window of a vector) until `count` windows, at least 4, are covered.
template <class Row>
[[gnu::always_inline]] inline void for_lanes(int64_t count, const Row& row) {
  if (count >= 8)
    for (int64_t i = 0; i < count; i += 8)
      row(std::integral_constant<int, 8>{}, std::min(i, count - 8));
  else
    for (int64_t i = 0; i < count; i += 4)
      row(std::integral_constant<int, 4>{}, std::min(i, count - 4));
}

KERF_CLONES void max_plane_2x2(const Window& w, const float* x, float* y, uint8_t* index) {
  for (int64_t oy = 0; oy < w.output[0]; ++oy) {
    const float* top = x + 2 * oy * w.input[1];
    const float* bottom = top + w.input[1];
    const int64_t row = oy * w.output[1];
    for_lanes(
        w.output[1], [&](auto lanes, int64_t i) __attribute__((always_inline)) {
          max_of_2x2<lanes>(top + 2 * i, bottom + 2 * i, y + row + i, index + row + i);
        });
  }
}

KERF_CLONES void max_plane_gradient_2x2(const Window& w, const float* dy, const uint8_t* index,
                                        float* dx) {
  const int64_t used = 2 * w.output[1];
  for (int64_t oy = 0; oy < w.output[0]; ++oy) {
    float* top = dx + 2 * oy * w.input[1];
    float* bottom = top + w.input[1];
    const int64_t row = oy * w.output[1];
    for_lanes(
        w.output[1], [&](auto lanes, int64_t i) __attribute__((always_inline)) {
          max_gradient_of_2x2<lanes>(dy + row + i, index + row + i, top + 2 * i, bottom + 2 * i);
        });
    std::fill(top + used, top + w.input[1], 0.0F);
    std::fill(bottom + used, bottom + w.input[1], 0.0F);
  }
  std::fill(dx + 2 * w.output[0] * w.input[1], dx + input_plane(w), 0.0F);
}

bool tiles_2x2(const Window& w) {
  const Extent2 two{2, 2};
  return w.kernel == two && w.strides == two && w.dilations == Extent2{1, 1} &&
         w.pads_begin == Extent2{} && w.output[1] >= 4 && 2 * w.output[0] <= w.input[0] &&
         2 * w.output[1] <= w.input[1];
}

template <class Index>
void max_plane(const Window& w, const float* x, float* y, Index* index) {
  for (int64_t oy = 0; oy < w.output[0]; ++oy) {
    const Taps rows = taps(w, 0, oy);
    for (int64_t ox = 0; ox < w.output[1]; ++ox) {
      const Taps columns = taps(w, 1, ox);
      float best = x[rows.at * w.input[1] + columns.at];
      int64_t entry = rows.first * w.kernel[1] + columns.first;
      for (int64_t ky = rows.first; ky < rows.last; ++ky)
        for (int64_t kx = columns.first; kx < columns.last; ++kx) {
          const int64_t iy = rows.at + (ky - rows.first) * w.dilations[0];
          const int64_t ix = columns.at + (kx - columns.first) * w.dilations[1];
          const float value = x[iy * w.input[1] + ix];
          if (!(value > best) && value == value) continue;
          best = value;
          entry = ky * w.kernel[1] + kx;
        }
      *y++ = best;
      if (index != nullptr) *index++ = static_cast<Index>(entry);
    }
  }
}

template <class Index>
void add_max_plane_gradient(const Window& w, const float* dy, const Index* index, float* dx) {
  for (int64_t oy = 0; oy < w.output[0]; ++oy)
    for (int64_t ox = 0; ox < w.output[1]; ++ox) {
      const int64_t entry = *index++;
      const int64_t iy = oy * w.strides[0] - w.pads_begin[0] + entry / w.kernel[1] * w.dilations[0];
      const int64_t ix = ox * w.strides[1] - w.pads_begin[1] + entry % w.kernel[1] * w.dilations[1];
      dx[iy * w.input[1] + ix] += *dy++;
    }
}

class MaxPoolKernel final : public ActivationKernel {
 public:
  explicit MaxPoolKernel(const KernelSite& site) : index_bytes_(site.as<Pool>().index_bytes()) {
    if (!site.iterations.empty()) window_ = site.as<Pool>().local_window(site.iterations);
  }

  void forward(const Call& call) override {
    const float* x = call.inputs[0].f32();
    float* y = call.outputs[0].f32();
    const bool fast = !call.reserve.empty() && tiles_2x2(window_);
    with_index(call.reserve.data(), [&](auto* index) {
      for_planes(window_, call.outputs[0], [&](int64_t p) {
        const float* from = x + p * input_plane(window_);
        float* to = y + p * output_plane(window_);
        auto* at = index == nullptr ? nullptr : index + p * output_plane(window_);
        if (fast)
          max_plane_2x2(window_, from, to, reinterpret_cast<uint8_t*>(at));
        else
          max_plane(window_, from, to, at);
      });
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const float* dy = call.output_gradients[0].f32();
    const bool fast = tiles_2x2(window_);
    for (const GradientTarget& target : targets)
      with_index(call.reserve.data(), [&](const auto* index) {
        for_planes(window_, target.to, [&](int64_t p) {
          float* to = target.to.f32() + p * input_plane(window_);
          const float* from = dy + p * output_plane(window_);
          const auto* at = index + p * output_plane(window_);
          if (fast) {
            max_plane_gradient_2x2(window_, from, reinterpret_cast<const uint8_t*>(at), to);
            return;
          }
          std::fill_n(to, input_plane(window_), 0.0F);
          add_max_plane_gradient(window_, from, at, to);
        });
      });
  }

 private:
  template <class Work>
  void with_index(std::byte* reserve, const Work& work) const {
    if (index_bytes_ == 1)
      work(reinterpret_cast<uint8_t*>(reserve));
    else
      work(reinterpret_cast<int32_t*>(reserve));
  }

  int64_t index_bytes_;
  Window window_;
};

std::unique_ptr<Kernel> make_max_pool(const KernelSite& site) {
  return std::make_unique<MaxPoolKernel>(site);
}

}  // namespace

KernelEntries register_max_pool() { return {{"MaxPool", make_max_pool}}; }

}  // namespace kerf::ops::cpu
