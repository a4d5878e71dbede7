#include "ops/operators/segment_log_sum_exp.h"

#include <algorithm>

namespace kerf::ops {
namespace {

std::vector<int64_t> boundaries_of(const NodeFacts& facts) {
  const Shape& scores = facts.inputs[0].spec.shape;
  if (scores.rank() < 2)
    throw Error(ErrorCode::kUsage,
                format("SegmentLogSumExp wants scores [N, C, ...], not {}", to_string(scores)));
  std::vector<int64_t> boundaries = attribute_ints(facts.attributes, "boundaries", {0, scores[1]});
  const bool ascend = std::adjacent_find(boundaries.begin(), boundaries.end(),
                                         std::greater_equal<>()) == boundaries.end();
  if (boundaries.size() < 2 || !ascend || boundaries.front() != 0 || boundaries.back() != scores[1])
    throw Error(ErrorCode::kUsage,
                format("SegmentLogSumExp of {} classes: boundaries [{}] do not ascend from 0 to {}",
                       scores[1], fmt::join(boundaries, ", "), scores[1]));
  return boundaries;
}

}  // namespace

SegmentLogSumExp::SegmentLogSumExp(const NodeFacts& facts)
    : BoundOperator("SegmentLogSumExp", facts), boundaries_(boundaries_of(facts)) {
  want_float32("SegmentLogSumExp", input(0), "scores");
  Shape segments = shape(0);
  segments[1] = static_cast<int64_t>(boundaries_.size()) - 1;
  outputs_ = {{DType::kFloat32, segments}, {DType::kFloat32, segments}};
  const OperandMap map = same_axes(segments.rank());
  space_ = {axes_of_tensor(segments), {map}, {map, map}};
  space_.axes[1].kind = AxisKind::kFeature;
  space_.axes[1].name = "segments";
  space_.inputs[0].axes[1].segments = boundaries_;
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
           .attributes = {{"boundaries", AttributeType::kInts}},
           .bind = bind_as<SegmentLogSumExp>}};
}

}  // namespace kerf::ops
