// MatMul on the CPU. A shared B makes one product of all rows; else there is one per sample.
#include "ops/cpu/dnnl_matmul.h"
#include "ops/cpu/kernels.h"

namespace kerf::ops::cpu {
namespace {

class MatMulKernel final : public Kernel {
 public:
  void forward(const Call& call) override {
    const Extents e = extents(call.inputs[0].shape, call.inputs[1].shape);
    if (e.batch * e.m == 0) return;
    matmul_.run({.batch = e.batch, .m = e.m, .n = e.n, .k = e.k}, {call.inputs[0].f32(), false},
                {call.inputs[1].f32(), false}, nullptr, call.outputs[0].f32());
  }

  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const Extents e = extents(call.inputs[0].shape, call.inputs[1].shape);
    const float* dy = call.output_gradients[0].f32();
    for (const auto& target : targets) {
      float* to = target.to.f32();
      if (e.batch * e.m == 0) {
        if (!target.accumulate) std::fill_n(to, target.to.elements(), 0.0F);
      } else if (target.input == 0) {
        matmul_.run(
            {.batch = e.batch, .m = e.m, .n = e.k, .k = e.n, .accumulate = target.accumulate},
            {dy, false}, {call.inputs[1].f32(), true}, nullptr, to);
      } else {
        matmul_.run(
            {.batch = e.batch, .m = e.k, .n = e.n, .k = e.m, .accumulate = target.accumulate},
            {call.inputs[0].f32(), true}, {dy, false}, nullptr, to);
      }
    }
  }

 private:
  struct Extents {
    int64_t batch = 1;
    int64_t m = 0;
    int64_t n = 0;
    int64_t k = 0;
  };
  static Extents extents(const Shape& a, const Shape& b) {
    if (b.rank() == 3) return {a[0], a[1], b[2], b[1]};
    return {1, a.rank() == 3 ? a[0] * a[1] : a[0], b[1], b[0]};
  }

  DnnlMatmul matmul_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul_kernel() { return std::make_unique<MatMulKernel>(); }

}  // namespace kerf::ops::cpu
