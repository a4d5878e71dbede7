// Softmax on the CPU: forward by oneDNN, the gradient dx = y * (dy - sum(dy * y)) by hand, as
// oneDNN's cannot add.
#include <array>
#include <map>

#include "ops/cpu/dnnl_engine.h"
#include "ops/cpu/kernels.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

using dnnl::memory;

// A tensor seen as [outer, length, inner], with the sum along the middle.
struct Folded {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;
};

class SoftmaxKernel final : public Kernel {
 public:
  explicit SoftmaxKernel(int64_t axis) : axis_(axis) {}

  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    if (y.elements() == 0) return;
    guard("Softmax", [&] {
      const Folded f = fold(y.shape);
      const std::array<int64_t, 3> key{f.outer, f.length, f.inner};
      const memory::desc desc({f.outer, f.length, f.inner}, memory::data_type::f32,
                              memory::format_tag::abc);
      auto at = primitives_.find(key);
      if (at == primitives_.end()) at = primitives_.emplace(key, make_primitive(desc)).first;
      engine_.run(at->second, {{DNNL_ARG_SRC, engine_.wrap(desc, call.inputs[0].data)},
                               {DNNL_ARG_DST, engine_.wrap(desc, y.data)}});
    });
  }

  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const auto& target : targets) {
      const Folded f = fold(target.to.shape);
      simd::parallel_pieces(f.outer, 1 + simd::kLeastElements / (f.length * f.inner),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t o = begin; o < end; ++o)
                          for (int64_t i = 0; i < f.inner; ++i)
                            line_gradient(call, target, f, o * f.length * f.inner + i);
                      });
    }
  }

 private:
  Folded fold(const Shape& shape) const {
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + shape.rank() : axis_);
    Folded f;
    for (int i = 0; i < axis; ++i) f.outer *= shape[i];
    f.length = shape[axis];
    for (int i = axis + 1; i < shape.rank(); ++i) f.inner *= shape[i];
    return f;
  }

  dnnl::softmax_v2_forward make_primitive(const memory::desc& desc) const {
    using Softmax = dnnl::softmax_v2_forward;
    const Softmax::desc softmax(dnnl::prop_kind::forward_training,
                                dnnl::algorithm::softmax_accurate, desc, desc, 1);
    return Softmax(Softmax::primitive_desc(softmax, engine_.engine()));
  }

  static void line_gradient(const Call& call, const GradientTarget& target, const Folded& f,
                            int64_t at) {
    const float* y = call.outputs[0].f32() + at;
    const float* dy = call.output_gradients[0].f32() + at;
    float* dx = target.to.f32() + at;
    float sum = 0;
    for (int64_t j = 0; j < f.length; ++j) sum += dy[j * f.inner] * y[j * f.inner];
    for (int64_t j = 0; j < f.length; ++j) {
      const float gradient = y[j * f.inner] * (dy[j * f.inner] - sum);
      dx[j * f.inner] = target.accumulate ? dx[j * f.inner] + gradient : gradient;
    }
  }

  int64_t axis_;
  DnnlEngine engine_;
  std::map<std::array<int64_t, 3>, dnnl::softmax_v2_forward> primitives_;
};

}  // namespace

std::unique_ptr<Kernel> make_softmax_kernel(int64_t axis) {
  return std::make_unique<SoftmaxKernel>(axis);
}

}  // namespace kerf::ops::cpu
