#include "ops/operators/matmul.h"

#include <algorithm>

#include "ops/matmul_stacks.h"
#include "ops/product_cost.h"
#include "ops/samples_axis.h"

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

// The stacks that an operand of this shape has, then its own two axes, of which a vector has one.
OperandMap map_of(const Shape& operand, int stacks, const std::vector<int>& own) {
  std::vector<std::vector<int>> axes;
  const int matrices = operand.rank() - static_cast<int>(own.size());
  for (int i = 0; i < matrices; ++i) {
    const int stack = i + stacks - matrices;
    axes.push_back(operand[i] == 1 ? std::vector<int>{} : std::vector<int>{stack});
  }
  for (const int axis : own) axes.push_back({axis});
  return operand_axes(axes);
}

void check_product_types(const Operand& left, const Operand& right) {
  const DType type = left.spec.dtype;
  const bool product =
      is_floating(type) ? type == DType::kFloat32 || type == DType::kFloat64 : type != DType::kBool;
  if (!product || right.spec.dtype != type)
    throw Error(ErrorCode::kUsage, format("MatMul cannot multiply {} by {}", to_string(type),
                                          to_string(right.spec.dtype)));
  if (type != DType::kFloat32 && (left.wants_gradient || right.wants_gradient))
    throw Error(ErrorCode::kUsage,
                format("MatMul has gradients of float32, not of {}", to_string(type)));
}

}  // namespace

MatMul::MatMul(const NodeFacts& facts) : BoundOperator("MatMul", facts) {
  check_product_types(input(0), input(1));
  const bool row = shape(0).rank() == 1;
  const bool column = shape(1).rank() == 1;
  const Shape a = as_matrix(shape(0), true);
  const Shape b = as_matrix(shape(1), false);
  if (a.rank() < 2 || b.rank() < 2)
    throw Error(ErrorCode::kUsage, format("MatMul multiplies [..., M, K] by [..., K, O]; not {} by "
                                          "{}",
                                          to_string(shape(0)), to_string(shape(1))));
  const int64_t columns = b[b.rank() - 1];
  const int64_t inner = a[a.rank() - 1];
  if (inner != b[b.rank() - 2] || columns < 1 || inner < 1)
    throw Error(ErrorCode::kUsage, format("MatMul cannot multiply {} by {}", to_string(shape(0)),
                                          to_string(shape(1))));
  std::vector<int64_t> extents = stacks_of(a, b);
  if (extents.size() + 3 > static_cast<size_t>(Shape::kMaxRank))
    throw Error(
        ErrorCode::kUsage,
        format("MatMul of {} by {} has {} stacks beside rows, columns and what is summed; "
               "{} are the most: reshape them into fewer",
               to_string(shape(0)), to_string(shape(1)), extents.size(), Shape::kMaxRank - 3));
  const auto stacks = static_cast<int>(extents.size());
  for (int i = 0; i < stacks; ++i) {
    const int64_t extent = extents[static_cast<size_t>(i)];
    const AxisKind kind = extent < 0 ? AxisKind::kSample : AxisKind::kFeature;
    space_.axes.push_back({kind, extent < 0 ? "samples" : format("stack {}", i), extent});
  }
  const int64_t rows = a[a.rank() - 2];
  space_.axes.push_back(rows < 0 ? samples_axis(rows)
                                 : IterationAxis{AxisKind::kSpace, "rows", rows});
  space_.axes.push_back({AxisKind::kFeature, "columns", columns});
  space_.axes.push_back({AxisKind::kSummed, "inner", inner});
  const DType type = input(0).spec.dtype;
  if (type != DType::kFloat32)
    space_.axes.back().undivided = "parts are put together by adding, which is of float32";
  std::vector<int> own;
  if (!row) own.push_back(stacks);
  if (!row) extents.push_back(rows);
  if (!column) own.push_back(stacks + 1);
  if (!column) extents.push_back(columns);
  outputs_ = {{type, Shape(extents)}};
  const int last = stacks + 2;
  space_.inputs = {
      map_of(shape(0), stacks, row ? std::vector<int>{last} : std::vector<int>{stacks, last}),
      map_of(shape(1), stacks,
             column ? std::vector<int>{last} : std::vector<int>{last, stacks + 1})};
  space_.outputs = {map_of(outputs_[0].shape, stacks, own)};
}

Cost MatMul::cost(const LocalSpecs& local) const {
  const Shape& a_shape = local.inputs[0].shape;
  const double a = static_cast<double>(a_shape.elements());
  const double b = static_cast<double>(local.inputs[1].shape.elements());
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  const double flops = 2 * y * static_cast<double>(a_shape[a_shape.rank() - 1]);
  const double bytes = static_cast<double>(size_of(local.outputs[0].dtype)) * (a + b + y);
  return product_cost(*this, flops, bytes);
}

OperatorDefinitions define_matmul() {
  return {
      {.name = "MatMul", .inputs = {{"A"}, {"B"}}, .outputs = {{"Y"}}, .bind = bind_as<MatMul>}};
}

}  // namespace kerf::ops
