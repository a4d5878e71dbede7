// MatMul on a GPU: as few products of cuBLASLt as the stacks allow (ops/matmul_stacks.h).
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/lt_matmul.h"
#include "ops/matmul_stacks.h"
#include "ops/workbench.h"

namespace kerf::ops::cuda {
namespace {

// Where the stacks are done one by one, a product may begin at any of the matrices.
uint32_t alignment_of(const StackedProducts& p) {
  if (p.outer == 0) return LtMatmul::kAlignment;
  return std::min({LtMatmul::alignment_of(p.a_matrix), LtMatmul::alignment_of(p.b_matrix),
                   LtMatmul::alignment_of(p.y_matrix)});
}

class MatMulKernel final : public PlainKernel {
 public:
  explicit MatMulKernel(const KernelSite& site)
      : queue_(queue_of(site)), matmul_(workbench_of(site)) {}

  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    if (y.elements() == 0) return;
    const StackedProducts p(call.inputs[0].shape, call.inputs[1].shape, y.shape,
                            StackedProducts::RepeatedA::kInBatch);
    p.for_each([&](int64_t a, int64_t b, int64_t to, bool, bool) {
      matmul_.run({.batch = p.batch,
                   .repeats_a = p.repeats_a,
                   .m = p.m,
                   .n = p.n,
                   .k = p.k,
                   .alignment = alignment_of(p)},
                  call.inputs[0].f32() + a, call.inputs[1].f32() + b, nullptr, y.f32() + to,
                  call.workspace);
    });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets) {
      if (target.to.elements() == 0 || dy.elements() == 0) {
        if (!target.accumulate) clear(queue_, target.to);
        continue;
      }
      // The gradient of a repeated A is a sum over the products.
      const StackedProducts p(call.inputs[0].shape, call.inputs[1].shape, dy.shape,
                              target.input == 0 ? StackedProducts::RepeatedA::kOneByOne
                                                : StackedProducts::RepeatedA::kInBatch);
      p.for_each([&](int64_t a, int64_t b, int64_t y, bool first_of_a, bool first_of_b) {
        if (target.input == 0)
          matmul_.run({.batch = p.batch,
                       .m = p.m,
                       .n = p.k,
                       .k = p.n,
                       .accumulate = target.accumulate || !first_of_a,
                       .transpose_b = true,
                       .alignment = alignment_of(p)},
                      dy.f32() + y, call.inputs[1].f32() + b, nullptr, target.to.f32() + a,
                      call.workspace);
        else
          matmul_.run({.batch = p.batch,
                       .repeats_a = p.repeats_a,
                       .m = p.k,
                       .n = p.n,
                       .k = p.m,
                       .accumulate = target.accumulate || !first_of_b,
                       .transpose_a = true,
                       .alignment = alignment_of(p)},
                      call.inputs[0].f32() + a, dy.f32() + y, nullptr, target.to.f32() + b,
                      call.workspace);
      });
    }
  }

 private:
  const Queue& queue_;
  LtMatmul matmul_;
};

// The largest of the three products'. A smaller micro-batch makes smaller ones.
size_t matmul_workspace(const BoundOperator&, const LocalSpecs& local, int) {
  size_t most = 0;
  for (const ValueSpec* result : {&local.outputs[0], &local.inputs[0], &local.inputs[1]})
    most = std::max(most, LtMatmul::workspace_bytes(1, 1, result->shape.elements()));
  return most;
}

}  // namespace

KernelEntries register_matmul() {
  return {{.op = "MatMul",
           .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             if (site.op.outputs()[0].dtype != DType::kFloat32)
               throw_no_kernel("MatMul of other numbers than float32", site.bench.device());
             return std::make_unique<MatMulKernel>(site);
           },
           .workspace = matmul_workspace}};
}

}  // namespace kerf::ops::cuda
