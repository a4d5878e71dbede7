// MatMul on the CPU: as few products as the stacks allow.
#include <algorithm>

#include "ops/cpu/element.h"
#include "ops/cpu/matrix_product.h"
#include "ops/kernel.h"
#include "ops/matmul_stacks.h"
#include "ops/number.h"

namespace kerf::ops::cpu {
namespace {

MatrixProduct::Problem matmul_product(const StackedProducts& p) {
  return {.batch = p.batch, .m = p.m, .n = p.n, .k = p.k};
}

// Of A (0) or B (1).
MatrixProduct::Problem matmul_gradient(const StackedProducts& p, int input, bool accumulate) {
  if (input == 0) return {.batch = p.batch, .m = p.m, .n = p.k, .k = p.n, .accumulate = accumulate};
  return {.batch = p.batch, .m = p.k, .n = p.n, .k = p.m, .accumulate = accumulate};
}

class MatMulKernel final : public PlainKernel {
 public:
  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    if (y.elements() == 0) return;
    const StackedProducts p(call.inputs[0].shape, call.inputs[1].shape, y.shape);
    const Workspace workspace(call.workspace);
    p.for_each([&](int64_t a, int64_t b, int64_t to, bool, bool) {
      matmul_.run(matmul_product(p), {call.inputs[0].f32() + a, false},
                  {call.inputs[1].f32() + b, false}, nullptr, y.f32() + to, workspace);
    });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    const Workspace workspace(call.workspace);
    for (const GradientTarget& target : targets) {
      float* to = target.to.f32();
      if (target.to.elements() == 0 || dy.elements() == 0) {
        if (!target.accumulate) std::fill_n(to, target.to.elements(), 0.0F);
        continue;
      }
      const StackedProducts p(call.inputs[0].shape, call.inputs[1].shape, dy.shape);
      p.for_each([&](int64_t a, int64_t b, int64_t y, bool first_of_a, bool first_of_b) {
        if (target.input == 0)
          matmul_.run(matmul_gradient(p, 0, target.accumulate || !first_of_a),
                      {dy.f32() + y, false}, {call.inputs[1].f32() + b, true}, nullptr, to + a,
                      workspace);
        else
          matmul_.run(matmul_gradient(p, 1, target.accumulate || !first_of_b),
                      {call.inputs[0].f32() + a, true}, {dy.f32() + y, false}, nullptr, to + b,
                      workspace);
      });
    }
  }

 private:
  MatrixProduct matmul_;
};

// Numbers that oneDNN does not multiply: shapes and tables, not layers.
class PlainMatMulKernel final : public PlainKernel {
 public:
  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    if (y.elements() == 0) return;
    with_number(y.dtype, [&](auto zero) {
      using T = decltype(zero);
      const StackedProducts p(call.inputs[0].shape, call.inputs[1].shape, y.shape);
      p.for_each([&](int64_t a, int64_t b, int64_t to, bool, bool) {
        for (int64_t i = 0; i < p.batch; ++i)
          multiply(p, call.inputs[0].as<T>() + a + i * p.a_matrix,
                   call.inputs[1].as<T>() + b + i * p.b_matrix, y.as<T>() + to + i * p.y_matrix);
      });
    });
  }

 protected:
  void gradient(const Call&, std::span<const GradientTarget>) override {
    throw Error(ErrorCode::kInternal, "MatMul has gradients of float32 only");
  }

 private:
  template <class T>
  static void multiply(const StackedProducts& p, const T* a, const T* b, T* y) {
    std::fill_n(y, p.m * p.n, T{});
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t k = 0; k < p.k; ++k)
        for (int64_t j = 0; j < p.n; ++j)
          y[i * p.n + j] =
              number::sum(y[i * p.n + j], number::product(a[i * p.k + k], b[k * p.n + j]));
  }
};

std::unique_ptr<Kernel> make_matmul(const KernelSite& site) {
  if (site.op.outputs()[0].dtype != DType::kFloat32) return std::make_unique<PlainMatMulKernel>();
  return std::make_unique<MatMulKernel>();
}

// Of the product that takes most.
size_t matmul_workspace(const BoundOperator& op, const LocalSpecs& local, int threads) {
  const Shape& y = local.outputs[0].shape;
  if (y.elements() == 0 || local.inputs[0].shape.elements() == 0) return 0;
  if (local.outputs[0].dtype != DType::kFloat32) return 0;
  const StackedProducts p(local.inputs[0].shape, local.inputs[1].shape, y);
  size_t most = MatrixProduct::workspace_bytes(matmul_product(p), false, false, false, threads);
  for (const int input : {0, 1})
    for (const bool accumulate : {false, true})
      if (op.inputs()[static_cast<size_t>(input)].wants_gradient)
        most =
            std::max(most, MatrixProduct::workspace_bytes(matmul_gradient(p, input, accumulate),
                                                          input == 1, input == 0, false, threads));
  return most;
}

}  // namespace

KernelEntries register_matmul() { return {{"MatMul", make_matmul, matmul_workspace}}; }

}  // namespace kerf::ops::cpu
