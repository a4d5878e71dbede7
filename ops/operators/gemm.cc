#include "ops/operators/gemm.h"

#include "ops/product_cost.h"
#include "ops/samples_axis.h"

namespace kerf::ops {
namespace {

// The axes of C, of Y's or repeated.
OperandMap bias_map(const Shape& c, const Shape& y, int inner) {
  OperandMap map = c.rank() > 2 ? OperandMap() : broadcast_axes(c, y);
  const Shape matrix = c.rank() > 2 ? Shape{0, 0} : bias_matrix(c);
  for (int i = 0; i < 2; ++i)
    if (matrix[i] != 1 && matrix[i] != y[i])
      throw Error(ErrorCode::kUsage,
                  format("Gemm wants C that repeats over Y, of shape {}, as [{}] "
                         "does; not {}",
                         to_string(y), y[1], to_string(c)));
  map.first_of = inner;
  return map;
}

}  // namespace

Shape bias_matrix(const Shape& c) {
  const int64_t columns = c.rank() == 0 ? 1 : c[c.rank() - 1];
  return {c.rank() < 2 ? 1 : c[0], columns};
}

GemmGradient gemm_gradient_of(const Gemm& op, int input) {
  const bool a = op.transpose_a();
  const bool b = op.transpose_b();
  if (input == 0) return a ? GemmGradient{false, b, true} : GemmGradient{true, false, !b};
  return b ? GemmGradient{true, true, a} : GemmGradient{false, !a, false};
}

Gemm::Gemm(const NodeFacts& facts)
    : BoundOperator("Gemm", facts),
      alpha_(static_cast<float>(attribute_float(facts.attributes, "alpha", 1))),
      beta_(static_cast<float>(attribute_float(facts.attributes, "beta", 1))),
      transpose_a_(attribute_int(facts.attributes, "transA", 0) != 0),
      transpose_b_(attribute_int(facts.attributes, "transB", 0) != 0) {
  for (const Operand& operand : inputs()) want_float32("Gemm", operand, "all inputs");
  const Shape& a = shape(0);
  const Shape& b = shape(1);
  if (a.rank() != 2 || b.rank() != 2)
    throw Error(ErrorCode::kUsage, format("Gemm wants A and B of rank 2, not A {} and B {}",
                                          to_string(a), to_string(b)));
  const int64_t rows = a[transpose_a_ ? 1 : 0];
  const int64_t inner = a[transpose_a_ ? 0 : 1];
  const int64_t columns = b[transpose_b_ ? 0 : 1];
  if (b[transpose_b_ ? 1 : 0] != inner || inner <= 0 || columns <= 0)
    throw Error(ErrorCode::kUsage, format("Gemm cannot multiply A {}{} by B {}{}", to_string(a),
                                          transpose_a_ ? " transposed (transA)" : "", to_string(b),
                                          transpose_b_ ? " transposed (transB)" : ""));
  outputs_ = {{DType::kFloat32, {rows, columns}}};
  enum : int { kRows, kColumns, kInner };
  space_.axes = {samples_axis(rows),
                 {AxisKind::kFeature, "outputs", columns},
                 {AxisKind::kSummed, "inputs", inner}};
  const auto matrix = [](int first, int second, bool transposed) {
    return transposed ? operand_axes({{second}, {first}}) : operand_axes({{first}, {second}});
  };
  space_.inputs = {matrix(kRows, kInner, transpose_a_), matrix(kInner, kColumns, transpose_b_)};
  space_.outputs = {operand_axes({{kRows}, {kColumns}})};
  if (inputs().size() < 3) return;
  if (has(2) && shape(2).rank() == 0)  // no part of it is less than it
    space_.axes[kInner].undivided = "C has no axes, and is added once";
  space_.inputs.push_back(has(2) ? bias_map(shape(2), outputs_[0].shape, kInner) : OperandMap());
}

Cost Gemm::cost(const LocalSpecs& local) const {
  const double a = static_cast<double>(local.inputs[0].shape.elements());
  const double b = static_cast<double>(local.inputs[1].shape.elements());
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  const double c = has(2) ? static_cast<double>(local.inputs[2].shape.elements()) : 0;
  const double inner = static_cast<double>(local.inputs[0].shape[transpose_a_ ? 0 : 1]);
  Cost cost = product_cost(*this, 2 * y * inner, 4 * (a + b + y));
  if (c > 0) add_bias_cost(input(2), y, 4 * c, cost);
  return cost;
}

BackwardReads Gemm::backward_reads() const { return product_reads(*this); }

OperatorDefinitions define_gemm() {
  return {{.name = "Gemm",
           .inputs = {{"A"}, {"B"}, {"C", FormalOperand::Count::kOptional}},
           .outputs = {{"Y"}},
           .attributes = {{"alpha", AttributeType::kFloat},
                          {"beta", AttributeType::kFloat},
                          {"transA"},
                          {"transB"}},
           .bind = bind_as<Gemm>,
           .first_opset = 7}};  // before it, `broadcast` was an attribute
}

}  // namespace kerf::ops
