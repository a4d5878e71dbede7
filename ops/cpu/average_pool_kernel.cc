// AveragePool on the CPU. Padding counts only where count_include_pad says so.
#include "ops/cpu/kernels.h"
#include "ops/cpu/pool_taps.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

// Entries that a window is averaged over, along one axis: all within the padded input, or within
// the input.
int64_t entries(const Window& w, size_t axis, int64_t o, const Taps& inside, bool count_padding) {
  if (!count_padding) return inside.last - inside.first;
  const int64_t start = o * w.strides[axis];
  const int64_t padded = w.pads_begin[axis] + w.input[axis] + w.pads_end[axis];
  const int64_t step = w.dilations[axis];
  return std::min(w.kernel[axis], (padded - start + step - 1) / step);
}

// Calls visit(output index, share of each entry, rows, columns) for every window of a channel.
template <class Visit>
void for_windows(const Window& w, bool count_padding, const Visit& visit) {
  int64_t output = 0;
  for (int64_t oy = 0; oy < w.output[0]; ++oy) {
    const Taps rows = taps(w, 0, oy);
    const int64_t row_entries = entries(w, 0, oy, rows, count_padding);
    for (int64_t ox = 0; ox < w.output[1]; ++ox) {
      const Taps columns = taps(w, 1, ox);
      const int64_t count = row_entries * entries(w, 1, ox, columns, count_padding);
      visit(output++, 1.0F / static_cast<float>(count), rows, columns);
    }
  }
}

template <class Visit>
void for_entries(const Window& w, const Taps& rows, const Taps& columns, const Visit& visit) {
  for (int64_t ky = 0; ky < rows.last - rows.first; ++ky)
    for (int64_t kx = 0; kx < columns.last - columns.first; ++kx)
      visit((rows.at + ky * w.dilations[0]) * w.input[1] + columns.at + kx * w.dilations[1]);
}

class AveragePoolKernel final : public Kernel {
 public:
  AveragePoolKernel(const WindowOptions& options, bool count_padding)
      : options_(options), count_padding_(count_padding) {}

  void forward(const Call& call) override {
    const TensorView& x = call.inputs[0];
    const TensorView& y = call.outputs[0];
    const Window w = make_window("AveragePool", options_, {x.shape[2], x.shape[3]});
    for_planes(y, w, [&](int64_t p) {
      const float* from = x.f32() + p * input_plane(w);
      float* to = y.f32() + p * output_plane(w);
      for_windows(w, count_padding_,
                  [&](int64_t o, float share, const Taps& rows, const Taps& columns) {
                    float sum = 0;
                    for_entries(w, rows, columns, [&](int64_t i) { sum += from[i]; });
                    to[o] = sum * share;
                  });
    });
  }

  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const auto& target : targets) {
      const Window w =
          make_window("AveragePool", options_, {target.to.shape[2], target.to.shape[3]});
      const float* dy = call.output_gradients[0].f32();
      for_planes(target.to, w, [&](int64_t p) {
        const float* from = dy + p * output_plane(w);
        float* to = target.to.f32() + p * input_plane(w);
        if (!target.accumulate) std::fill_n(to, input_plane(w), 0.0F);
        for_windows(w, count_padding_,
                    [&](int64_t o, float share, const Taps& rows, const Taps& columns) {
                      const float part = from[o] * share;
                      for_entries(w, rows, columns, [&](int64_t i) { to[i] += part; });
                    });
      });
    }
  }

 private:
  template <class Work>
  static void for_planes(const TensorView& tensor, const Window& w, const Work& work) {
    simd::parallel_pieces(tensor.shape[0] * tensor.shape[1], 1 + simd::kLeastElements / input_plane(w),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t p = begin; p < end; ++p) work(p);
                    });
  }

  WindowOptions options_;
  bool count_padding_;
};

}  // namespace

std::unique_ptr<Kernel> make_average_pool_kernel(const WindowOptions& options, bool count_padding) {
  return std::make_unique<AveragePoolKernel>(options, count_padding);
}

}  // namespace kerf::ops::cpu
