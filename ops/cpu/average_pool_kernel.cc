// AveragePool on the CPU. Padding counts only where count_include_pad says so.
#include "ops/activation_kernel.h"
#include "ops/cpu/pixel_pool.h"
#include "ops/cpu/plane_pool.h"
#include "ops/cpu/pool_taps.h"
#include "ops/operators/pool.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

template <class Visit>
void for_entries(const Window& w, const Taps& rows, const Taps& columns, const Visit& visit) {
  for (int64_t ky = 0; ky < rows.last - rows.first; ++ky)
    for (int64_t kx = 0; kx < columns.last - columns.first; ++kx)
      visit((rows.at + ky * w.dilations[0]) * w.input[1] + columns.at + kx * w.dilations[1]);
}

// Of channels side by side.
KERF_CLONES void add_stretch(const float* from, int64_t count, float scale, float* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] += from[i] * scale;
}

class AveragePoolKernel final : public ActivationKernel {
 public:
  explicit AveragePoolKernel(const KernelSite& site)
      : ActivationKernel(site.op), pool_(site.as<Pool>()) {
    if (site.iterations.empty()) return;
    window_ = pool_.local_window(site.iterations);
    whole_ = pool_.window();
    first_ = pool_.first_window(site.iterations);
    for (size_t axis = 0; axis < 2; ++axis)
      for (int64_t o = 0; o < window_.output[axis]; ++o)
        entries_[axis].push_back(static_cast<int32_t>(entries(axis, o, taps(window_, axis, o))));
  }

  void forward(const Call& call) override {
    if (pool_.images() == ImageFormat::kChannelsLast)
      return forward_pixels(call.inputs[0], call.outputs[0]);
    const float* x = call.inputs[0].f32();
    float* y = call.outputs[0].f32();
    for_planes(window_, call.outputs[0], [&](int64_t p) {
      average_of_plane(window_, averaged(), x + p * input_plane(window_),
                       y + p * output_plane(window_));
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const float* dy = call.output_gradients[0].f32();
    for (const GradientTarget& target : targets) {
      if (pool_.images() == ImageFormat::kChannelsLast) {
        gradient_of_pixels(dy, target.to);
        continue;
      }
      for_planes(window_, target.to, [&](int64_t p) {
        average_gradient_of_plane(window_, averaged(), dy + p * output_plane(window_),
                                  target.to.f32() + p * input_plane(window_));
      });
    }
  }

 private:
  // Runs work(sample) in parallel.
  template <class Work>
  void for_samples(const TensorView& tensor, const Work& work) const {
    if (tensor.elements() == 0) return;
    simd::parallel_pieces(tensor.shape[0],
                          1 + simd::kLeastElements * tensor.shape[0] / tensor.elements(),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t n = begin; n < end; ++n) work(n);
                          });
  }

  void forward_pixels(const TensorView& x, const TensorView& y) const {
    if (y.elements() == 0) return;
    const PixelPool pool{window_, y.shape[3], 1, x.elements(), y.elements()};
    simd::parallel_pieces(y.shape[0] * window_.output[0],
                          1 + simd::kLeastElements / (window_.output[1] * pool.channels),
                          [&](int64_t begin, int64_t end) {
                            average_of_pixels(pool, averaged(), x.f32(), begin, end, y.f32());
                          });
  }

  void gradient_of_pixels(const float* dy, const TensorView& dx) const {
    const int64_t channels = dx.shape[3];
    const PixelPool pool{window_, channels, 1, dx.elements(), 0};
    if (tiles(pool))
      return for_samples(dx, [&](int64_t n) {
        average_gradient_of_tiles(pool, averaged(), dy, n, n + 1, dx.f32());
      });
    for_samples(dx, [&](int64_t n) {
      const float* from = dy + n * output_plane(window_) * channels;
      float* to = dx.f32() + n * input_plane(window_) * channels;
      std::fill_n(to, input_plane(window_) * channels, 0.0F);
      for_windows([&](int64_t o, float share, const Taps& rows, const Taps& columns) {
        for_entries(window_, rows, columns, [&](int64_t i) {
          add_stretch(from + o * channels, channels, share, to + i * channels);
        });
      });
    });
  }

  // Entries that window `o` of this part is averaged over, along one axis: all within the whole's
  // padded input, or within the input.
  int64_t entries(size_t axis, int64_t o, const Taps& inside) const {
    if (!pool_.counts_padding()) return inside.last - inside.first;
    const int64_t start = (first_[axis] + o) * whole_.strides[axis];
    const int64_t padded = whole_.pads_begin[axis] + whole_.input[axis] + whole_.pads_end[axis];
    const int64_t step = whole_.dilations[axis];
    return std::min(whole_.kernel[axis], (padded - start + step - 1) / step);
  }

  AveragedEntries averaged() const { return {entries_[0].data(), entries_[1].data()}; }

  // Calls visit(output index, share of each entry, rows, columns) for every window of a channel.
  template <class Visit>
  void for_windows(const Visit& visit) const {
    int64_t output = 0;
    for (int64_t oy = 0; oy < window_.output[0]; ++oy)
      for (int64_t ox = 0; ox < window_.output[1]; ++ox)
        visit(output++, averaged().share(oy, ox), taps(window_, 0, oy), taps(window_, 1, ox));
  }

  const Pool& pool_;
  Window whole_;
  Window window_;                                // of this part
  Extent2 first_{};                              // of its windows, among the whole's
  std::array<std::vector<int32_t>, 2> entries_;  // that its windows are averaged over, by axis
};

std::unique_ptr<Kernel> make_average_pool(const KernelSite& site) {
  return std::make_unique<AveragePoolKernel>(site);
}

}  // namespace

KernelEntries register_average_pool() { return {{"AveragePool", make_average_pool}}; }

}  // namespace kerf::ops::cpu
