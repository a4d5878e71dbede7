// AveragePool on a GPU. Padding counts only where count_include_pad says so.
#include "ops/activation_kernel.h"
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/cuda/image_view.cuh"
#include "ops/cuda/window_view.cuh"
#include "ops/operators/pool.h"

namespace kerf::ops::cuda {
namespace {

// What a window is divided by, along one axis: all of its entries within the whole's padded input,
// or those that lie on the input.
struct Divisor {
  WindowAxis axis;  // of this part
  bool counts_padding;
  int64_t first;   // of this part's windows, among the whole's
  int64_t padded;  // the whole's input with its padding
  KERF_DEVICE int64_t of(int64_t o) const {
    if (counts_padding) {
      const int64_t room = padded - (first + o) * axis.stride;
      const int64_t fitting = (room + axis.dilation - 1) / axis.dilation;
      return axis.kernel < fitting ? axis.kernel : fitting;
    }
    int64_t inside = 0;
    for (int64_t k = 0; k < axis.kernel; ++k) inside += axis.has(axis.under(o, k)) ? 1 : 0;
    return inside;
  }
};

struct Shares {
  Divisor rows;
  Divisor columns;
  KERF_DEVICE float of(int64_t oy, int64_t ox) const {
    return 1.0F / static_cast<float>(rows.of(oy) * columns.of(ox));
  }
};

struct Average {
  WindowView window;
  ImageView input;
  ImageView output;
  Shares shares;
  const float* x;
  float* y;
  KERF_DEVICE void operator()(int64_t i) const {
    const ImagePlace to = output.place(i);
    float sum = 0;
    for (int64_t ky = 0; ky < window.rows.kernel; ++ky)
      for (int64_t kx = 0; kx < window.columns.kernel; ++kx) {
        const int64_t iy = window.rows.under(to.row, ky);
        const int64_t ix = window.columns.under(to.column, kx);
        if (window.rows.has(iy) && window.columns.has(ix))
          sum += x[input.at(to.sample, to.channel, iy, ix)];
      }
    y[i] = sum * shares.of(to.row, to.column);
  }
};

// Every input element adds up its shares, windows in ascending order.
struct AverageGradient {
  WindowView window;
  ImageView input;
  ImageView output;
  Shares shares;
  const float* dy;
  float* dx;
  KERF_DEVICE void operator()(int64_t i) const {
    const ImagePlace to = input.place(i);
    float sum = 0;
    for (int64_t ky = window.rows.kernel - 1; ky >= 0; --ky)
      for (int64_t kx = window.columns.kernel - 1; kx >= 0; --kx) {
        const int64_t oy = window.rows.over(to.row, ky);
        const int64_t ox = window.columns.over(to.column, kx);
        if (oy >= 0 && ox >= 0)
          sum += dy[output.at(to.sample, to.channel, oy, ox)] * shares.of(oy, ox);
      }
    dx[i] = sum;
  }
};

class AveragePoolKernel final : public ActivationKernel {
 public:
  explicit AveragePoolKernel(const KernelSite& site)
      : ActivationKernel(site.op), queue_(queue_of(site)), format_(site.as<Pool>().images()) {
    if (site.iterations.empty()) return;
    const Pool& pool = site.as<Pool>();
    const Window whole = pool.window();
    const Extent2 first = pool.first_window(site.iterations);
    window_ = window_view(pool.local_window(site.iterations));
    const auto divisor = [&](size_t i, const WindowAxis& axis) {
      return Divisor{axis, pool.counts_padding(), first[i],
                     whole.pads_begin[i] + whole.input[i] + whole.pads_end[i]};
    };
    shares_ = {divisor(0, window_.rows), divisor(1, window_.columns)};
  }

  void forward(const Call& call) override {
    for_each(queue_, call.outputs[0].elements(),
             Average{window_, image_view(format_, call.inputs[0].shape),
                     image_view(format_, call.outputs[0].shape), shares_, call.inputs[0].f32(),
                     call.outputs[0].f32()});
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      for_each(queue_, target.to.elements(),
               AverageGradient{window_, image_view(format_, target.to.shape),
                               image_view(format_, call.output_gradients[0].shape), shares_,
                               call.output_gradients[0].f32(), target.to.f32()});
  }

 private:
  const Queue& queue_;
  ImageFormat format_;
  WindowView window_{};
  Shares shares_{};
};

}  // namespace

KernelEntries register_average_pool() {
  return {{.op = "AveragePool", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<AveragePoolKernel>(site);
           }}};
}

}  // namespace kerf::ops::cuda
