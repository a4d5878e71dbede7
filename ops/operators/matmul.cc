#include "ops/operators/matmul.h"

#include <algorithm>

namespace kerf::ops {
namespace {

// The stacks of Y: those of A and B broadcast. Throws where they do not agree.
std::vector<int64_t> stacks_of(const Shape& a, const Shape& b) {
  const int count = std::max(a.rank(), b.rank()) - 2;
  std::vector<int64_t> stacks;
  for (int i = 0; i < count; ++i) {
    const int in_a = i - count + a.rank() - 2;
    const int in_b = i - count + b.rank() - 2;
    const int64_t x = in_a < 0 ? 1 : a[in_a];
    const int64_t y = in_b < 0 ? 1 : b[in_b];
    if (x != y && x != 1 && y != 1)
      throw Error(ErrorCode::kUsage, format("MatMul cannot multiply {} by {}: their stacks differ",
                                            to_string(a), to_string(b)));
    stacks.push_back(x == 1 ? y : x);
  }
  return stacks;
}

// The stacks that an operand of this shape has, then its own two axes.
OperandMap map_of(const Shape& operand, int stacks, int first, int second) {
  std::vector<std::vector<int>> axes;
  for (int i = 0; i < operand.rank() - 2; ++i) {
    const int stack = i + stacks - (operand.rank() - 2);
    axes.push_back(operand[i] == 1 ? std::vector<int>{} : std::vector<int>{stack});
  }
  axes.push_back({first});
  axes.push_back({second});
  return operand_axes(axes);
}

}  // namespace

MatMul::MatMul(const NodeFacts& facts) : BoundOperator("MatMul", facts) {
  want_float32("MatMul", input(0), "A");
  want_float32("MatMul", input(1), "B");
  const Shape& a = shape(0);
  const Shape& b = shape(1);
  if (a.rank() < 2 || b.rank() < 2)
    throw Error(ErrorCode::kUsage, format("MatMul multiplies [..., M, K] by [..., K, O]; not {} by "
                                          "{}",
                                          to_string(a), to_string(b)));
  const int64_t columns = b[b.rank() - 1];
  const int64_t inner = a[a.rank() - 1];
  if (inner != b[b.rank() - 2] || columns < 1 || inner < 1)
    throw Error(ErrorCode::kUsage,
                format("MatMul cannot multiply {} by {}", to_string(a), to_string(b)));
  std::vector<int64_t> extents = stacks_of(a, b);
  const auto stacks = static_cast<int>(extents.size());
  for (int i = 0; i < stacks; ++i) {
    const int64_t extent = extents[static_cast<size_t>(i)];
    const AxisKind kind = extent < 0 ? AxisKind::kSample : AxisKind::kFeature;
    space_.axes.push_back({kind, extent < 0 ? "samples" : format("stack {}", i), extent});
  }
  const int64_t rows = a[a.rank() - 2];
  space_.axes.push_back(rows < 0 ? IterationAxis{AxisKind::kSample, "samples", rows}
                                 : IterationAxis{AxisKind::kSpace, "rows", rows});
  space_.axes.push_back({AxisKind::kFeature, "columns", columns});
  space_.axes.push_back({AxisKind::kSummed, "inner", inner});
  extents.insert(extents.end(), {rows, columns});
  outputs_ = {{DType::kFloat32, Shape(extents)}};
  space_.inputs = {map_of(a, stacks, stacks, stacks + 2),
                   map_of(b, stacks, stacks + 2, stacks + 1)};
  space_.outputs = {map_of(outputs_[0].shape, stacks, stacks, stacks + 1)};
}

Cost MatMul::cost(const LocalSpecs& local) const {
  const Shape& a_shape = local.inputs[0].shape;
  const double a = static_cast<double>(a_shape.elements());
  const double b = static_cast<double>(local.inputs[1].shape.elements());
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  const double flops = 2 * y * static_cast<double>(a_shape[a_shape.rank() - 1]);
  const double bytes = 4 * (a + b + y);
  return {flops, flops, flops, bytes, bytes, bytes};
}

OperatorDefinitions define_matmul() {
  return {
      {.name = "MatMul", .inputs = {{"A"}, {"B"}}, .outputs = {{"Y"}}, .bind = bind_as<MatMul>}};
}

}  // namespace kerf::ops
