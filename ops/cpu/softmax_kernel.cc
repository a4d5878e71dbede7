// Softmax on the CPU: forward by oneDNN, the gradient dx = y * (dy - sum(dy * y)) by hand.
#include <array>
#include <map>

#include "ops/cpu/activation_kernel.h"
#include "ops/cpu/dnnl_engine.h"
#include "ops/operators/softmax.h"
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

class SoftmaxKernel final : public ActivationKernel {
 public:
  explicit SoftmaxKernel(int axis) : axis_(axis) {}

  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    if (y.elements() == 0) return;
    guard("Softmax", [&] {
      const Folded f = fold(y.shape);
      const std::array<int64_t, 3> key{f.outer, f.length, f.inner};
      auto at = plans_.find(key);
      if (at == plans_.end()) at = plans_.emplace(key, make_plan(f)).first;
      Plan& plan = at->second;
      point(plan.from, call.inputs[0].data);
      point(plan.to, y.data);
      engine_.run(plan.primitive, {{DNNL_ARG_SRC, plan.from}, {DNNL_ARG_DST, plan.to}});
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      if (target.to.elements() == 0) continue;
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
  struct Plan {
    dnnl::softmax_v2_forward primitive;
    memory from, to;
  };

  Folded fold(const Shape& shape) const {
    Folded f;
    for (int i = 0; i < axis_; ++i) f.outer *= shape[i];
    f.length = shape[axis_];
    for (int i = axis_ + 1; i < shape.rank(); ++i) f.inner *= shape[i];
    return f;
  }

  Plan make_plan(const Folded& f) const {
    using Softmax = dnnl::softmax_v2_forward;
    const memory::desc desc({f.outer, f.length, f.inner}, memory::data_type::f32,
                            memory::format_tag::abc);
    const Softmax::desc softmax(dnnl::prop_kind::forward_training,
                                dnnl::algorithm::softmax_accurate, desc, desc, 1);
    return {Softmax(Softmax::primitive_desc(softmax, engine_.engine())), engine_.room_for(desc),
            engine_.room_for(desc)};
  }

  static void line_gradient(const Call& call, const GradientTarget& target, const Folded& f,
                            int64_t at) {
    const float* y = call.outputs[0].f32() + at;
    const float* dy = call.output_gradients[0].f32() + at;
    float* dx = target.to.f32() + at;
    float sum = 0;
    for (int64_t j = 0; j < f.length; ++j) sum += dy[j * f.inner] * y[j * f.inner];
    for (int64_t j = 0; j < f.length; ++j)
      dx[j * f.inner] = y[j * f.inner] * (dy[j * f.inner] - sum);
  }

  int axis_;
  DnnlEngine engine_;
  std::map<std::array<int64_t, 3>, Plan> plans_;
};

std::unique_ptr<Kernel> make(const KernelSite& site) {
  return std::make_unique<SoftmaxKernel>(site.as<Softmax>().axis());
}

}  // namespace

KernelEntries register_softmax() { return {{"Softmax", make}}; }

}  // namespace kerf::ops::cpu
