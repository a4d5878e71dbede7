// MaxPool on the CPU. The forward pass reserves which entry of its window each output took, so that
// the gradient reads neither input nor output. NaN wins, so that a diverged run shows.
#include <algorithm>

#include "ops/activation_kernel.h"
#include "ops/cpu/pixel_pool.h"
#include "ops/cpu/plane_pool.h"
#include "ops/cpu/pool_taps.h"
#include "ops/operators/pool.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

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
  explicit MaxPoolKernel(const KernelSite& site)
      : ActivationKernel(site.op),
        format_(site.as<Pool>().images()),
        index_bytes_(site.as<Pool>().index_bytes()) {
    if (!site.iterations.empty()) window_ = site.as<Pool>().local_window(site.iterations);
  }

  void forward(const Call& call) override {
    const float* x = call.inputs[0].f32();
    float* y = call.outputs[0].f32();
    if (format_ == ImageFormat::kChannelsLast) return forward_pixels(call, x, y);
    const int64_t size = output_plane(window_);
    const bool one_byte = index_bytes_ == 1;
    std::byte* index = call.reserve.data();
    auto* narrow = one_byte ? reinterpret_cast<uint8_t*>(index) : nullptr;
    auto* wide = one_byte ? nullptr : reinterpret_cast<int32_t*>(index);
    for_planes(window_, call.outputs[0], [&](int64_t p) {
      max_of_plane(window_, x + p * input_plane(window_), y + p * size,
                   narrow == nullptr ? nullptr : narrow + p * size,
                   wide == nullptr ? nullptr : wide + p * size);
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets) {
      if (format_ == ImageFormat::kChannelsLast) {
        gradient_of_pixels(dy, call.reserve.data(), target.to);
        continue;
      }
      with_index(call.reserve.data(), [&](const auto* index) {
        for_planes(window_, target.to, [&](int64_t p) {
          float* to = target.to.f32() + p * input_plane(window_);
          std::fill_n(to, input_plane(window_), 0.0F);
          add_max_plane_gradient(window_, dy.f32() + p * output_plane(window_),
                                 index + p * output_plane(window_), to);
        });
      });
    }
  }

 private:
  template <class Work>
  void with_index(std::byte* reserve, const Work& work) const {
    if (index_bytes_ == 1)
      work(reinterpret_cast<uint8_t*>(reserve));
    else
      work(reinterpret_cast<int32_t*>(reserve));
  }

  PixelPool pixels(const TensorView& x, const TensorView& y) const {
    return {window_, x.shape[x.shape.rank() - 1], index_bytes_, x.elements(), y.elements()};
  }

  void forward_pixels(const Call& call, const float* x, float* y) const {
    const TensorView& to = call.outputs[0];
    if (to.elements() == 0) return;
    const PixelPool pool = pixels(call.inputs[0], to);
    std::byte* index = call.reserve.empty() ? nullptr : call.reserve.data();
    simd::parallel_pieces(
        to.shape[0] * window_.output[0],
        1 + simd::kLeastElements / (window_.output[1] * pool.channels),
        [&](int64_t begin, int64_t end) { max_of_pixels(pool, x, begin, end, y, index); });
  }

  void gradient_of_pixels(const TensorView& dy, const std::byte* index,
                          const TensorView& to) const {
    if (to.elements() == 0) return;
    const PixelPool pool = pixels(to, dy);
    simd::parallel_pieces(to.shape[0], 1 + simd::kLeastElements / (to.elements() / to.shape[0]),
                          [&](int64_t begin, int64_t end) {
                            max_gradient_of_pixels(pool, dy.f32(), index, begin, end, to.f32());
                          });
  }

  ImageFormat format_;
  int64_t index_bytes_;
  Window window_;
};

std::unique_ptr<Kernel> make_max_pool(const KernelSite& site) {
  return std::make_unique<MaxPoolKernel>(site);
}

}  // namespace

KernelEntries register_max_pool() { return {{"MaxPool", make_max_pool}}; }

}  // namespace kerf::ops::cpu
