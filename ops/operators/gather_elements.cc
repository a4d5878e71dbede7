#include "ops/operators/gather_elements.h"

#include "ops/operators/indices.h"

namespace kerf::ops {

GatherElements::GatherElements(const NodeFacts& facts)
    : BoundOperator("GatherElements", facts),
      axis_(resolved_axis("GatherElements", attribute_int(facts.attributes, "axis", 0),
                          shape(0).rank())) {
  const Shape& data = shape(0);
  const Shape& indices = shape(1);
  want_indices("GatherElements", input(1));
  bool fits = data.rank() == indices.rank() && data[axis_] >= 1 && indices[axis_] >= 0;
  for (int i = 0; fits && i < data.rank(); ++i)
    if (i != axis_) fits = indices[i] == data[i] || (indices[i] >= 0 && indices[i] <= data[i]);
  if (!fits)
    throw Error(ErrorCode::kUsage,
                format("GatherElements cannot pick from {} along axis {} with indices of {}",
                       to_string(data), axis_, to_string(indices)));
  outputs_ = {{input(0).spec.dtype, indices}};

  const int rank = data.rank();
  Shape places = data;
  places[axis_] = indices[axis_];
  space_.axes = axes_of_tensor(places);
  space_.axes.push_back({AxisKind::kSummed, "vocabulary", data[axis_]});
  if (outputs_[0].dtype != DType::kFloat32)
    space_.axes.back().undivided = "parts of it are put together by adding, which is of float32";
  OperandMap table = same_axes(rank);
  table.axes[static_cast<size_t>(axis_)].axes = {rank};
  space_.inputs = {table, same_axes(rank)};
  space_.outputs = {same_axes(rank)};
}

Cost GatherElements::cost(const LocalSpecs& local) const {
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  const double picks = bytes_of(local.inputs[1]) + 2 * bytes_of(local.outputs[0]);
  const double back = picks + bytes_of(local.outputs[0]) + bytes_of(local.inputs[0]);
  const bool weights = input(0).in_weight_gradient();
  return {0, weights ? 0 : y, weights ? y : 0, picks, weights ? 0 : back, weights ? back : 0};
}

BackwardReads GatherElements::backward_reads() const {
  BackwardReads reads;
  if (input(0).in_input_gradient()) reads.inputs_for_input_gradient = {1};
  if (input(0).in_weight_gradient()) reads.inputs_for_weight_gradient = {1};
  return reads;
}

OperatorDefinitions define_gather_elements() {
  return {{.name = "GatherElements",
           .inputs = {{"data"}, {"indices"}},
           .outputs = {{"output"}},
           .attributes = {{"axis"}},
           .bind = bind_as<GatherElements>,
           .first_opset = 11}};
}

}  // namespace kerf::ops
