// Softmax on the CPU: forward by oneDNN, the gradient dx = y * (dy - sum(dy * y)) by hand.
#include <array>
#include <map>

#include "ops/activation_kernel.h"
#include "ops/cpu/dnnl_engine.h"
#include "ops/folded.h"
#include "ops/operators/softmax.h"
#include "ops/simd/lanes.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

using dnnl::memory;

// Of one line that lies dense.
KERF_CLONES void line_gradient(const float* y, const float* dy, int64_t count, float* dx) {
  const float sum = simd::sum_in_lanes(count, [=](int64_t j) { return dy[j] * y[j]; });
#pragma omp simd
  for (int64_t j = 0; j < count; ++j) dx[j] = y[j] * (dy[j] - sum);
}

// Of one line whose elements are `stride` apart.
void line_gradient_apart(const float* y, const float* dy, int64_t count, int64_t stride,
                         float* dx) {
  float sum = 0;
  for (int64_t j = 0; j < count; ++j) sum += dy[j * stride] * y[j * stride];
  for (int64_t j = 0; j < count; ++j) dx[j * stride] = y[j * stride] * (dy[j * stride] - sum);
}

class SoftmaxKernel final : public ActivationKernel {
 public:
  explicit SoftmaxKernel(int axis) : axis_(axis) {}

  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    if (y.elements() == 0) return;
    guard("Softmax", [&] {
      const Folded f = fold(y.shape, axis_);
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
    const float* y = call.outputs[0].f32();
    const float* dy = call.output_gradients[0].f32();
    for (const GradientTarget& target : targets) {
      if (target.to.elements() == 0) continue;
      float* dx = target.to.f32();
      const Folded f = fold(target.to.shape, axis_);
      const int64_t lines = f.outer * f.inner;
      simd::parallel_pieces(
          lines, 1 + simd::kLeastElements / f.length, [&](int64_t begin, int64_t end) {
            for (int64_t line = begin; line < end; ++line) {
              const int64_t at = line / f.inner * f.length * f.inner + line % f.inner;
              if (f.inner == 1)
                line_gradient(y + at, dy + at, f.length, dx + at);
              else
                line_gradient_apart(y + at, dy + at, f.length, f.inner, dx + at);
            }
          });
    }
  }

 private:
  struct Plan {
    dnnl::softmax_v2_forward primitive;
    memory from, to;
  };

  Plan make_plan(const Folded& f) const {
    using Softmax = dnnl::softmax_v2_forward;
    const memory::desc desc({f.outer, f.length, f.inner}, memory::data_type::f32,
                            memory::format_tag::abc);
    const Softmax::desc softmax(dnnl::prop_kind::forward_training,
                                dnnl::algorithm::softmax_accurate, desc, desc, 1);
    return {Softmax(Softmax::primitive_desc(softmax, engine_.engine())), engine_.room_for(desc),
            engine_.room_for(desc)};
  }

  int axis_;
  DnnlEngine engine_;
  std::map<std::array<int64_t, 3>, Plan> plans_;
};

std::unique_ptr<Kernel> make_softmax(const KernelSite& site) {
  return std::make_unique<SoftmaxKernel>(site.as<Softmax>().axis());
}

}  // namespace

KernelEntries register_softmax() { return {{"Softmax", make_softmax}}; }

}  // namespace kerf::ops::cpu
