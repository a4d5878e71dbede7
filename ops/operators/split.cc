#include "ops/operators/split.h"

#include "ops/image_format.h"

namespace kerf::ops {
namespace {

// Equal parts, or with `num_outputs` all but the last.
std::vector<int64_t> equal_parts(const NodeFacts& facts, int64_t extent, int axis) {
  const int64_t outputs = facts.outputs;
  const bool counted = facts.attributes.contains("num_outputs");
  if (counted && attribute_int(facts.attributes, "num_outputs", 0) != outputs)
    throw Error(ErrorCode::kUsage, format("Split has {} outputs, but num_outputs {}", outputs,
                                          attribute_int(facts.attributes, "num_outputs", 0)));
  const int64_t each = (extent + outputs - 1) / outputs;
  const int64_t last = extent - each * (outputs - 1);
  if (last < 0 || (last != each && !counted))
    throw Error(ErrorCode::kUsage,
                format("Split cannot cut axis {} of {} into {} equal parts: say the extents in "
                       "attribute 'split'",
                       axis, extent, outputs));
  std::vector<int64_t> extents(static_cast<size_t>(outputs), each);
  extents.back() = last;
  return extents;
}

std::vector<int64_t> extents_of(const NodeFacts& facts, int64_t extent, int axis) {
  const auto outputs = static_cast<size_t>(facts.outputs);
  std::vector<int64_t> extents = attribute_ints(facts.attributes, "split", {});
  if (extents.empty()) return equal_parts(facts, extent, axis);
  int64_t rest = extent;
  for (const int64_t each : extents) {
    if (each < 0 || each > rest) rest = -1;
    if (rest < 0) break;
    rest -= each;
  }
  if (rest != 0 || extents.size() != outputs)
    throw Error(ErrorCode::kUsage,
                format("Split of axis {} of {} into {} outputs cannot have the extents [{}]", axis,
                       extent, outputs, fmt::join(extents, ", ")));
  return extents;
}

}  // namespace

Split::Split(const NodeFacts& facts)
    : BoundOperator("Split", facts),
      axis_(resolved_axis("Split", attribute_int(facts.attributes, "axis", 0), shape(0).rank())) {
  const Shape& whole = shape(0);
  if (whole[axis_] < 0)
    throw Error(ErrorCode::kUsage, format("Split of {} along axis {}, the batch: name another axis",
                                          to_string(whole), axis_));
  space_ = {axes_of_image(image_format(facts), whole), {same_axes(whole.rank())}, {}};
  int64_t offset = 0;
  for (const int64_t extent : extents_of(facts, whole[axis_], axis_)) {
    Shape part = whole;
    part[axis_] = extent;
    outputs_.push_back({input(0).spec.dtype, part});
    space_.outputs.push_back(same_axes(whole.rank()));
    space_.outputs.back().axes[static_cast<size_t>(axis_)].offset = offset;
    offset += extent;
  }
}

Cost Split::cost(const LocalSpecs& local) const {
  const ValueSpec& whole = local.inputs[0];
  const double bytes =
      2 * static_cast<double>(whole.shape.elements()) * static_cast<double>(size_of(whole.dtype));
  const bool weights = input(0).in_weight_gradient();
  return {0, 0, 0, bytes, weights ? 0 : bytes, weights ? bytes : 0};
}

BackwardReads Split::backward_reads() const { return {}; }

OperatorDefinitions define_split() {
  return {{.name = "Split",
           .inputs = {{"input"}},
           .outputs = {{"outputs", FormalOperand::Count::kVariadic}},
           .attributes =
               {{"axis"}, {"num_outputs"}, {"split", AttributeType::kInts}, format_attribute()},
           .input_attributes = {{"split", 1, 13}},
           .bind = bind_as<Split>,
           .channels_last = [](const NodeFacts& facts) {
             return images_along_axis_channels_last(facts, 0);
           }}};
}

}  // namespace kerf::ops
