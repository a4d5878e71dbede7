#include "ops/operators/gemm.h"

namespace kerf::ops {
namespace {

void check_bias(const Shape& bias, int64_t columns) {
  const bool fits = (bias.rank() == 1 && bias[0] == columns) ||
                    (bias.rank() == 2 && bias[0] == 1 && bias[1] == columns);
  if (!fits)
    throw Error(ErrorCode::kUsage, format("Gemm wants C of shape [{}] or [1, {}], not {}", columns,
                                          columns, to_string(bias)));
}

}  // namespace

Gemm::Gemm(const NodeFacts& facts)
    : BoundOperator("Gemm", facts),
      alpha_(static_cast<float>(attribute_float(facts.attributes, "alpha", 1))),
      beta_(static_cast<float>(attribute_float(facts.attributes, "beta", 1))),
      transpose_b_(attribute_int(facts.attributes, "transB", 0) != 0) {
  if (attribute_int(facts.attributes, "transA", 0) != 0)
    throw Error(
        ErrorCode::kUsage,
        "Gemm with transA is not supported: axis 0 of A is the batch; transpose A beforehand");
  for (const Operand& operand : inputs()) want_float32("Gemm", operand, "all inputs");
  const Shape& a = shape(0);
  const Shape& b = shape(1);
  if (a.rank() != 2 || b.rank() != 2)
    throw Error(ErrorCode::kUsage, format("Gemm wants A and B of rank 2, not A {} and B {}",
                                          to_string(a), to_string(b)));
  const int64_t inner = transpose_b_ ? b[1] : b[0];
  const int64_t columns = transpose_b_ ? b[0] : b[1];
  if (a[1] != inner || inner <= 0 || columns <= 0)
    throw Error(ErrorCode::kUsage, format("Gemm cannot multiply A {} by B {}{}", to_string(a),
                                          to_string(b), transpose_b_ ? " transposed" : ""));
  outputs_ = {{DType::kFloat32, {a[0], columns}}};
  enum : int { kRows, kColumns, kInner };
  space_.axes = {{AxisKind::kSample, "samples", a[0]},
                 {AxisKind::kFeature, "outputs", columns},
                 {AxisKind::kSummed, "inputs", inner}};
  space_.inputs = {operand_axes({{kRows}, {kInner}}), transpose_b_
                                                          ? operand_axes({{kColumns}, {kInner}})
                                                          : operand_axes({{kInner}, {kColumns}})};
  space_.outputs = {operand_axes({{kRows}, {kColumns}})};
  if (inputs().size() < 3) return;
  if (has(2)) check_bias(shape(2), columns);
  space_.inputs.push_back(has(2) && shape(2).rank() == 2 ? operand_axes({{}, {kColumns}}, kInner)
                                                         : operand_axes({{kColumns}}, kInner));
}

Cost Gemm::cost(const LocalSpecs& local) const {
  const double a = static_cast<double>(local.inputs[0].shape.elements());
  const double b = static_cast<double>(local.inputs[1].shape.elements());
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  const double c = has(2) ? static_cast<double>(local.inputs[2].shape.elements()) : 0;
  const double flops = 2 * y * static_cast<double>(local.inputs[0].shape[1]);
  const double bytes = 4 * (a + b + y);
  const double bias = c > 0 ? y : 0;
  return {flops + bias, flops, flops + bias, bytes + 4 * c, bytes, bytes + 4 * (c + bias)};
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
