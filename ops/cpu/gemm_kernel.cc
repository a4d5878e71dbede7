// Gemm on the CPU: three products, and column sums for the bias. One row times a large matrix
// is multiplied by hand, as fast as memory gives the matrix: oneDNN packs it first, and takes twice
// as long.
#include "ops/cpu/column_sum.h"
#include "ops/cpu/matrix_product.h"
#include "ops/kernel.h"
#include "ops/operators/gemm.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

MatrixProduct::Problem gemm_product(const Gemm& op, const Shape& a, const Shape& y) {
  return {.m = y[0], .n = y[1], .k = a[op.transpose_a() ? 0 : 1], .alpha = op.alpha()};
}

constexpr int64_t kRowsAtOnce = 4;  // of B, each read as a stream of its own
constexpr int64_t kRowLanes = 16;
constexpr int64_t kBeyondCaches = 1 << 20;  // numbers

// Whether A is one row, and B a large matrix whose rows are what that is multiplied with.
bool is_row_by_rows(const Gemm& op, const Shape& y, const Shape& b) {
  return y[0] == 1 && op.transpose_b() && op.alpha() == 1 && b.elements() >= kBeyondCaches;
}

// y[r] = the product of x and row r of B, of `rows` of them.
template <int64_t kRows>
[[gnu::always_inline]] inline void multiply_rows(const float* x, const float* b, int64_t count,
                                                 float* y) {
  float sums[kRows][kRowLanes] = {};
  int64_t i = 0;
  for (; i + kRowLanes <= count; i += kRowLanes)
    for (int64_t r = 0; r < kRows; ++r)
#pragma omp simd
      for (int64_t lane = 0; lane < kRowLanes; ++lane)
        sums[r][lane] += x[i + lane] * b[r * count + i + lane];
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t lane = 0; i + lane < count; ++lane)
      sums[r][lane] += x[i + lane] * b[r * count + i + lane];
    for (int64_t width = kRowLanes / 2; width > 0; width /= 2)
      for (int64_t lane = 0; lane < width; ++lane) sums[r][lane] += sums[r][lane + width];
    y[r] = sums[r][0];
  }
}

KERF_CLONES void row_by_rows(const float* x, const float* b, int64_t rows, int64_t count,
                             const float* bias, float* y) {
  int64_t r = 0;
  for (; r + kRowsAtOnce <= rows; r += kRowsAtOnce)
    multiply_rows<kRowsAtOnce>(x, b + r * count, count, y + r);
  for (; r < rows; ++r) multiply_rows<1>(x, b + r * count, count, y + r);
  if (bias == nullptr) return;
  for (r = 0; r < rows; ++r) y[r] += bias[r];
}

// Of A (0) or B (1), whose shape is `to`. Sums over micro-batches are taken inside.
MatrixProduct::Problem gemm_gradient(const Gemm& op, int input, const Shape& to, const Shape& y,
                                     bool accumulate) {
  return {.m = to[0],
          .n = to[1],
          .k = y[input == 0 ? 1 : 0],
          .alpha = op.alpha(),
          .accumulate = accumulate};
}

// How far apart C's neighbours lie along Y's axes; 0 where it is repeated.
struct BiasSteps {
  explicit BiasSteps(const Shape& c)
      : row(bias_matrix(c)[0] == 1 ? 0 : bias_matrix(c)[1]),
        column(bias_matrix(c)[1] == 1 ? 0 : 1) {}
  int64_t row;
  int64_t column;
};

class GemmKernel final : public PlainKernel {
 public:
  explicit GemmKernel(const Gemm& op) : op_(op) {}

  void forward(const Call& call) override {
    const TensorView& a = call.inputs[0];
    const TensorView& y = call.outputs[0];
    // Absent, or left to the call that has inner index 0.
    const float* c = call.inputs.size() > 2 ? call.inputs[2].f32() : nullptr;
    if (y.elements() == 0) return;
    const bool inside = c != nullptr && op_.alpha() == 1 && op_.beta() == 1 &&
                        bias_matrix(call.inputs[2].shape) == Shape{1, y.shape[1]};
    const Shape& b = call.inputs[1].shape;
    if (is_row_by_rows(op_, y.shape, b) && (inside || c == nullptr))
      return simd::parallel_pieces(b[0], 1 + kBeyondCaches / b[1], [&](int64_t begin, int64_t end) {
        row_by_rows(a.f32(), call.inputs[1].f32() + begin * b[1], end - begin, b[1],
                    c == nullptr ? nullptr : c + begin, y.f32() + begin);
      });
    matmul_.run(gemm_product(op_, a.shape, y.shape), {a.f32(), op_.transpose_a()},
                {call.inputs[1].f32(), op_.transpose_b()}, inside ? c : nullptr, y.f32(),
                Workspace(call.workspace));
    if (c != nullptr && !inside) add_bias(c, BiasSteps(call.inputs[2].shape), y);
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets) {
      if (target.input == 2)
        bias_gradient(dy, target);
      else
        product_gradient(call, dy, target);
    }
  }

 private:
  void add_bias(const float* c, const BiasSteps& steps, const TensorView& y) const {
    const int64_t columns = y.shape[1];
    for (int64_t row = 0; row < y.shape[0]; ++row)
      for (int64_t j = 0; j < columns; ++j)
        y.f32()[row * columns + j] += op_.beta() * c[row * steps.row + j * steps.column];
  }

  void bias_gradient(const TensorView& dy, const GradientTarget& target) const {
    const int64_t columns = dy.shape[1];
    float* to = target.to.f32();
    if (bias_matrix(target.to.shape) == Shape{1, columns})
      return add_columns(dy.f32(), dy.shape[0], columns, op_.beta(), to, target.accumulate);
    const BiasSteps steps(target.to.shape);
    if (!target.accumulate) std::fill_n(to, target.to.elements(), 0.0F);
    for (int64_t row = 0; row < dy.shape[0]; ++row)
      for (int64_t j = 0; j < columns; ++j)
        to[row * steps.row + j * steps.column] += op_.beta() * dy.f32()[row * columns + j];
  }

  void product_gradient(const Call& call, const TensorView& dy, const GradientTarget& target) {
    const int64_t count = target.to.elements();
    if (count == 0 || dy.elements() == 0) {
      if (!target.accumulate) std::fill_n(target.to.f32(), count, 0.0F);
      return;
    }
    const GemmGradient order = gemm_gradient_of(op_, target.input);
    const float* other = call.inputs[target.input == 0 ? 1 : 0].f32();
    matmul_.run(gemm_gradient(op_, target.input, target.to.shape, dy.shape, target.accumulate),
                {order.dy_first ? dy.f32() : other, order.transpose_first},
                {order.dy_first ? other : dy.f32(), order.transpose_second}, nullptr,
                target.to.f32(), Workspace(call.workspace));
  }

  const Gemm& op_;
  MatrixProduct matmul_;
};

std::unique_ptr<Kernel> make_gemm(const KernelSite& site) {
  return std::make_unique<GemmKernel>(site.as<Gemm>());
}

// Of the product that takes most.
size_t gemm_workspace(const BoundOperator& bound, const LocalSpecs& local, int threads) {
  const auto& op = static_cast<const Gemm&>(bound);
  const Shape& a = local.inputs[0].shape;
  const Shape& b = local.inputs[1].shape;
  const Shape& y = local.outputs[0].shape;
  if (y.elements() == 0 || a.elements() == 0) return 0;
  size_t most = 0;
  const auto add = [&](const MatrixProduct::Problem& problem, bool transposed_a, bool transposed_b,
                       bool bias) {
    most = std::max(
        most, MatrixProduct::workspace_bytes(problem, transposed_a, transposed_b, bias, threads));
  };
  for (const bool bias : {false, true})
    if (!bias || op.has(2)) add(gemm_product(op, a, y), op.transpose_a(), op.transpose_b(), bias);
  for (const int input : {0, 1})
    for (const bool accumulate : {false, true}) {
      const Operand& operand = op.inputs()[static_cast<size_t>(input)];
      if (!operand.wants_gradient || (accumulate && operand.in_input_gradient())) continue;
      const GemmGradient order = gemm_gradient_of(op, input);
      add(gemm_gradient(op, input, input == 0 ? a : b, y, accumulate), order.transpose_first,
          order.transpose_second, false);
    }
  return most;
}

}  // namespace

KernelEntries register_gemm() { return {{"Gemm", make_gemm, gemm_workspace}}; }

}  // namespace kerf::ops::cpu
