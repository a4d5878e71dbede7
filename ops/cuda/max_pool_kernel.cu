// MaxPool on a GPU. The forward pass reserves which entry of its window each output took, so that
// the gradient reads neither input nor output. NaN wins, so that a diverged run shows.
//
// By own kernels, for cuDNN's would need input and output again, and pads the same on both sides.
#include "ops/activation_kernel.h"
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/cuda/image_view.cuh"
#include "ops/cuda/window_view.cuh"
#include "ops/operators/pool.h"

namespace kerf::ops::cuda {
namespace {

template <class Index>
struct TakeLargest {
  WindowView window;
  ImageView input;
  ImageView output;
  const float* x;
  float* y;
  Index* taken;  // null in evaluation
  KERF_DEVICE void operator()(int64_t i) const {
    const ImagePlace to = output.place(i);
    float best = 0;
    int64_t entry = -1;
    for (int64_t k = 0; k < window.entries(); ++k) {
      const int64_t iy = window.rows.under(to.row, k / window.columns.kernel);
      const int64_t ix = window.columns.under(to.column, k % window.columns.kernel);
      if (!window.rows.has(iy) || !window.columns.has(ix)) continue;
      const float value = x[input.at(to.sample, to.channel, iy, ix)];
      if (entry >= 0 && !(value > best) && value == value) continue;
      best = value;
      entry = k;
    }
    y[i] = best;
    if (taken != nullptr) taken[i] = static_cast<Index>(entry);
  }
};

// Every input element adds up what those windows that took it were given, in ascending order.
template <class Index>
struct GiveToTaken {
  WindowView window;
  ImageView input;
  ImageView output;
  const float* dy;
  const Index* taken;
  float* dx;
  KERF_DEVICE void operator()(int64_t i) const {
    const ImagePlace to = input.place(i);
    float sum = 0;
    for (int64_t k = window.entries() - 1; k >= 0; --k) {
      const int64_t oy = window.rows.over(to.row, k / window.columns.kernel);
      const int64_t ox = window.columns.over(to.column, k % window.columns.kernel);
      if (oy < 0 || ox < 0) continue;
      const int64_t o = output.at(to.sample, to.channel, oy, ox);
      if (static_cast<int64_t>(taken[o]) == k) sum += dy[o];
    }
    dx[i] = sum;
  }
};

class MaxPoolKernel final : public ActivationKernel {
 public:
  explicit MaxPoolKernel(const KernelSite& site)
      : ActivationKernel(site.op),
        queue_(queue_of(site)),
        format_(site.as<Pool>().images()),
        index_bytes_(site.as<Pool>().index_bytes()) {
    if (!site.iterations.empty())
      window_ = window_view(site.as<Pool>().local_window(site.iterations));
  }

  void forward(const Call& call) override {
    with_index(call.reserve.data(), [&](auto* taken) {
      for_each(queue_, call.outputs[0].elements(),
               TakeLargest<std::remove_pointer_t<decltype(taken)>>{
                   window_, image_view(format_, call.inputs[0].shape),
                   image_view(format_, call.outputs[0].shape), call.inputs[0].f32(),
                   call.outputs[0].f32(), taken});
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      with_index(call.reserve.data(), [&](auto* taken) {
        for_each(queue_, target.to.elements(),
                 GiveToTaken<std::remove_pointer_t<decltype(taken)>>{
                     window_, image_view(format_, target.to.shape),
                     image_view(format_, call.output_gradients[0].shape),
                     call.output_gradients[0].f32(), taken, target.to.f32()});
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

  const Queue& queue_;
  ImageFormat format_;
  int64_t index_bytes_;
  WindowView window_{};
};

}  // namespace

KernelEntries register_max_pool() {
  return {{.op = "MaxPool", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<MaxPoolKernel>(site);
           }}};
}

}  // namespace kerf::ops::cuda
