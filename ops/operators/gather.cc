#include "ops/operators/gather.h"

#include "ops/operators/indices.h"

namespace kerf::ops {

Gather::Gather(const NodeFacts& facts)
    : BoundOperator("Gather", facts),
      axis_(resolved_axis("Gather", attribute_int(facts.attributes, "axis", 0), shape(0).rank())) {
  const Shape& data = shape(0);
  const Shape& indices = shape(1);
  want_indices("Gather", input(1));
  if (data[axis_] < 1)
    throw Error(ErrorCode::kUsage,
                format("Gather cannot pick along axis {} of {}", axis_, to_string(data)));
  std::vector<int64_t> extents(data.begin(), data.begin() + axis_);
  extents.insert(extents.end(), indices.begin(), indices.end());
  extents.insert(extents.end(), data.begin() + axis_ + 1, data.end());
  outputs_ = {{input(0).spec.dtype, Shape(extents)}};

  const int rank = outputs_[0].shape.rank();
  space_.axes = axes_of_tensor(outputs_[0].shape);
  space_.axes.push_back({AxisKind::kSummed, "vocabulary", data[axis_]});
  if (outputs_[0].dtype != DType::kFloat32)
    space_.axes.back().undivided = "parts of it are put together by adding, which is of float32";
  std::vector<std::vector<int>> table;
  std::vector<std::vector<int>> picks;
  for (int i = 0; i < axis_; ++i) table.push_back({i});
  table.push_back({rank});
  for (int i = axis_ + indices.rank(); i < rank; ++i) table.push_back({i});
  for (int i = 0; i < indices.rank(); ++i) picks.push_back({axis_ + i});
  space_.inputs = {operand_axes(table), operand_axes(picks)};
  space_.outputs = {same_axes(rank)};
}

Cost Gather::cost(const LocalSpecs& local) const {
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  const double element = static_cast<double>(size_of(input(0).spec.dtype));
  const double table = element * static_cast<double>(local.inputs[0].shape.elements());
  const double indices = static_cast<double>(local.inputs[1].shape.elements()) *
                         static_cast<double>(size_of(input(1).spec.dtype));
  const double back = 3 * element * y + indices + table;  // and zeroed
  const bool weights = input(0).in_weight_gradient();
  return {0,
          weights ? 0 : y,
          weights ? y : 0,
          2 * element * y + indices,
          weights ? 0 : back,
          weights ? back : 0};
}

BackwardReads Gather::backward_reads() const {
  BackwardReads reads;
  if (input(0).in_input_gradient()) reads.inputs_for_input_gradient = {1};
  if (input(0).in_weight_gradient()) reads.inputs_for_weight_gradient = {1};
  return reads;
}

OperatorDefinitions define_gather() {
  return {{.name = "Gather",
           .inputs = {{"data"}, {"indices"}},
           .outputs = {{"output"}},
           .attributes = {{"axis"}},
           .bind = bind_as<Gather>}};
}

}  // namespace kerf::ops
