#include "ops/operators/segment_softmax.h"

namespace kerf::ops {

SegmentSoftmax::SegmentSoftmax(const NodeFacts& facts)
    : BoundOperator("SegmentSoftmax", facts),
      axis_(resolved_axis("SegmentSoftmax", attribute_int(facts.attributes, "axis", -1),
                          shape(0).rank())),
      logarithm_(attribute_int(facts.attributes, "logarithm", 0) != 0) {
  for (const Operand& operand : inputs()) want_float32(name(), operand, "all inputs");
  const Shape& x = shape(0);
  Shape segments = x;
  if (x[axis_] >= 1 && shape(1).rank() == x.rank()) segments[axis_] = shape(1)[axis_];
  if (x[axis_] < 1 || segments[axis_] < 1 || !(shape(1) == segments) || !(shape(2) == segments))
    throw Error(ErrorCode::kUsage,
                format("SegmentSoftmax along axis {} of {} wants maximum and log_sum of its "
                       "shape, with segments for that axis, not {} and {}",
                       axis_, to_string(x), to_string(shape(1)), to_string(shape(2))));
  std::vector<std::vector<int>> of_line;
  for (int axis = 0; axis < x.rank(); ++axis)
    of_line.push_back(axis == axis_ ? std::vector<int>{} : std::vector<int>{axis});
  outputs_ = {input(0).spec};
  space_ = {axes_of_tensor(x),
            {same_axes(x.rank()), operand_axes(of_line), operand_axes(of_line)},
            {same_axes(x.rank())}};
}

Cost SegmentSoftmax::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.outputs[0].shape.elements());
  const double s = static_cast<double>(local.inputs[1].shape.elements());
  return {3 * n + 3 * s, 4 * n + 4 * s, 0, 8 * n + 8 * s, 12 * n + 16 * s, 0};
}

BackwardReads SegmentSoftmax::backward_reads() const {
  BackwardReads reads;
  reads.inputs_for_input_gradient = {1, 2};
  if (!logarithm_) reads.outputs_for_input_gradient = {0};
  return reads;
}

OperatorDefinitions define_segment_softmax() {
  return {{.name = "SegmentSoftmax",
           .inputs = {{"X"}, {"maximum"}, {"log_sum"}},
           .outputs = {{"Y"}},
           .attributes = {{"axis"}, {"logarithm"}},
           .bind = bind_as<SegmentSoftmax>}};
}

}  // namespace kerf::ops
