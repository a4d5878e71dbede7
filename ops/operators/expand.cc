// Expand (ONNX, opset 13, shape as an attribute) and Tile (opset 13, repeats as an attribute):
// the input repeated.
//
//   Expand  [1, 4, 1] with shape [N, 4, 3]    as NumPy broadcasts, both ways
//   Tile    [N, 4, 3] with repeats [1, 2, 1]  copies one after another along an axis
//
// In Expand's `shape` -1 stands for the batch: a parameter of one row is repeated for every sample.
// Iterations: the output's axes, those that Tile repeats as a product of copies and indices; all of
// them divide. The gradient is the sum over the repetitions.
#include <algorithm>

#include "ops/operators/rearranged.h"

namespace kerf::ops {
namespace {

Shape expanded(const Shape& input, const std::vector<int64_t>& wanted) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kUsage,
                format("Expand of {} to [{}]: {}", to_string(input), fmt::join(wanted, ", "), why));
  };
  const int rank = std::max(input.rank(), static_cast<int>(wanted.size()));
  std::vector<int64_t> extents;
  for (int i = 0; i < rank; ++i) {
    const int own = i - (rank - input.rank());
    const int other = i - (rank - static_cast<int>(wanted.size()));
    const int64_t from = own < 0 ? 1 : input[own];
    const int64_t to = other < 0 ? 1 : wanted[static_cast<size_t>(other)];
    if (to < kBatch) refuse(format("an extent is {}", to));
    if (from != to && from != 1 && to != 1)
      refuse(format("axis {} has {} indices, which do not repeat", i,
                    from < 0 ? "the batch's" : format("{}", from)));
    extents.push_back(from == 1 ? to : from);
  }
  return Shape(extents);
}

std::unique_ptr<const BoundOperator> bind_expand(const NodeFacts& facts) {
  if (!facts.attributes.contains("shape"))
    throw Error(ErrorCode::kUsage, "Expand needs its attribute 'shape'");
  const Shape& from = facts.inputs[0].spec.shape;
  const Shape to = expanded(from, attribute_ints(facts.attributes, "shape", {}));
  return std::make_unique<Rearranged>(
      "Expand", facts, to,
      IterationSpace{axes_of_tensor(to), {broadcast_axes(from, to)}, {same_axes(to.rank())}});
}

std::unique_ptr<const BoundOperator> bind_tile(const NodeFacts& facts) {
  const Shape& from = facts.inputs[0].spec.shape;
  const auto repeats = attribute_ints(facts.attributes, "repeats", {});
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kUsage, format("Tile of {} with repeats [{}]: {}", to_string(from),
                                          fmt::join(repeats, ", "), why));
  };
  if (repeats.size() != static_cast<size_t>(from.rank())) refuse("one for each axis is wanted");
  Shape to = from;
  IterationSpace space;
  std::vector<std::vector<int>> input;
  std::vector<std::vector<int>> output;
  const std::vector<IterationAxis> own = axes_of_tensor(from);
  for (int i = 0; i < from.rank(); ++i) {
    const auto axis = static_cast<size_t>(i);
    const int64_t copies = repeats[axis];
    if (copies < 1 && from.batched()) refuse(format("axis {} is repeated {} times", i, copies));
    if (copies < 0) refuse(format("axis {} is repeated {} times", i, copies));
    if (from[i] < 0 && copies != 1) refuse("the batch is not repeated");
    const auto first = static_cast<int>(space.axes.size());
    output.emplace_back();
    if (copies != 1) {
      space.axes.push_back({AxisKind::kOther, format("copies along axis {}", i), copies});
      output.back().push_back(first);
      if (__builtin_mul_overflow(to[i], copies, &to[i])) refuse("it is too large");
    }
    input.push_back({static_cast<int>(space.axes.size())});
    output.back().push_back(input.back()[0]);
    space.axes.push_back(own[axis]);
  }
  if (space.axes.size() > Shape::kMaxRank)
    refuse(format("more than {} axes and copies", Shape::kMaxRank));
  space.inputs = {operand_axes(input)};
  space.outputs = {operand_axes(output)};
  return std::make_unique<Rearranged>("Tile", facts, to, std::move(space));
}

}  // namespace

OperatorDefinitions define_expand() {
  return {{.name = "Expand",
           .inputs = {{"input"}},
           .outputs = {{"output"}},
           .attributes = {{"shape", AttributeType::kInts}},
           .input_attributes = {{"shape", 1, 8}},
           .bind = bind_expand,
           .first_opset = 8},
          {.name = "Tile",
           .inputs = {{"input"}},
           .outputs = {{"output"}},
           .attributes = {{"repeats", AttributeType::kInts}},
           .input_attributes = {{"repeats", 1, 6}},
           .bind = bind_tile,
           .first_opset = 6}};
}

}  // namespace kerf::ops
