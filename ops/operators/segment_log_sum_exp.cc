#include "ops/operators/segment_log_sum_exp.h"

#include <algorithm>

namespace kerf::ops {
namespace {

int axis_of(const NodeFacts& facts) {
  const Shape& scores = facts.inputs[0].spec.shape;
  const int axis = scores.rank() < 2
                       ? -1
                       : resolved_axis("SegmentLogSumExp",
                                       attribute_int(facts.attributes, "axis", 1), scores.rank());
  if (axis < 0 || scores[axis] < 1)
    throw Error(ErrorCode::kUsage,
                format("SegmentLogSumExp wants scores [N, C, ...], not {}", to_string(scores)));
  return axis;
}

std::vector<int64_t> boundaries_of(const NodeFacts& facts, int64_t classes) {
  std::vector<int64_t> boundaries = attribute_ints(facts.attributes, "boundaries", {0, classes});
  const bool ascend = std::adjacent_find(boundaries.begin(), boundaries.end(),
                                         std::greater_equal<>()) == boundaries.end();
  if (boundaries.size() < 2 || !ascend || boundaries.front() != 0 || boundaries.back() != classes)
    throw Error(ErrorCode::kUsage,
                format("SegmentLogSumExp of {} classes: boundaries [{}] do not ascend from 0 to {}",
                       classes, fmt::join(boundaries, ", "), classes));
  return boundaries;
}

}  // namespace

SegmentLogSumExp::SegmentLogSumExp(const NodeFacts& facts)
    : BoundOperator("SegmentLogSumExp", facts),
      axis_(axis_of(facts)),
      boundaries_(boundaries_of(facts, shape(0)[axis_])) {
  want_float32("SegmentLogSumExp", input(0), "scores");
  Shape segments = shape(0);
  segments[axis_] = static_cast<int64_t>(boundaries_.size()) - 1;
  outputs_ = {{DType::kFloat32, segments}, {DType::kFloat32, segments}};
  const OperandMap map = same_axes(segments.rank());
  space_ = {axes_of_tensor(segments), {map}, {map, map}};
  const auto axis = static_cast<size_t>(axis_);
  space_.axes[axis].kind = AxisKind::kFeature;
  space_.axes[axis].name = "segments";
  space_.inputs[0].axes[axis].segments = boundaries_;
}

Cost SegmentLogSumExp::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.inputs[0].shape.elements());
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  return {4 * n, 3 * n, 0, 4 * n + 8 * y, 8 * n + 16 * y, 0};
}

BackwardReads SegmentLogSumExp::backward_reads() const {
  BackwardReads reads;
  reads.inputs_for_input_gradient = {0};
  reads.outputs_for_input_gradient = {0, 1};
  return reads;
}

OperatorDefinitions define_segment_log_sum_exp() {
  return {{.name = "SegmentLogSumExp",
           .inputs = {{"scores"}},
           .outputs = {{"maximum"}, {"log_sum"}},
           .attributes = {{"boundaries", AttributeType::kInts}, {"axis"}},
           .bind = bind_as<SegmentLogSumExp>}};
}

}  // namespace kerf::ops
