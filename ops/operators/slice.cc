// Slice (ONNX, opset 13; starts, ends, axes and steps as attributes): stretches of some axes.
//
// Negative starts and ends count from the end, and what lies beyond an axis is cut off; a negative
// step goes backwards. Any element type. An axis that is sliced by single steps divides, as those
// do that stay whole. The batch is not sliced.
#include <algorithm>
#include <limits>

#include "ops/moved.h"

namespace kerf::ops {
namespace {

// As Python slices, with ONNX's rules for what lies beyond.
MovedAxis sliced(int64_t extent, int64_t start, int64_t end, int64_t step) {
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 4;
  const auto place = [&](int64_t index, int64_t low, int64_t high) {
    index = std::clamp(index, -kFar, kFar);
    return std::clamp(index < 0 ? index + extent : index, low, high);
  };
  const int64_t high = std::max<int64_t>(extent - 1, 0);
  const int64_t first = step > 0 ? place(start, 0, extent) : place(start, 0, high);
  const int64_t last = step > 0 ? place(end, 0, extent) : place(end, -1, extent - 1);
  const int64_t length = step > 0 ? last - first : first - last;
  const int64_t stride = step > 0 ? step : -std::max(step, -kFar);
  const int64_t count = extent == 0 || length <= 0 ? 0 : (length - 1) / stride + 1;
  if (step == 1 && count == extent) return {};  // it stays as it is
  MovedAxis axis{{{count == 0 ? 0 : first, 0, count, step}}, count, {}};
  if (step != 1) axis.undivided = format("it takes every index that is {} on", step);
  return axis;
}

// Of the batch, however many samples there are.
bool is_whole(int64_t start, int64_t end, int64_t step) {
  return start == 0 && step == 1 && end >= std::numeric_limits<int32_t>::max();
}

std::unique_ptr<const BoundOperator> bind_slice(const NodeFacts& facts) {
  const Shape& shape = facts.inputs[0].spec.shape;
  const auto starts = attribute_ints(facts.attributes, "starts", {});
  const auto ends = attribute_ints(facts.attributes, "ends", {});
  const auto steps =
      attribute_ints(facts.attributes, "steps", std::vector<int64_t>(starts.size(), 1));
  if (starts.empty() || ends.size() != starts.size() || steps.size() != starts.size())
    throw Error(ErrorCode::kUsage,
                format("Slice wants as many starts as ends and steps, not {}, {} and {}",
                       starts.size(), ends.size(), steps.size()));
  std::vector<MovedAxis> axes(static_cast<size_t>(shape.rank()));
  const std::vector<int> which = some_axes("Slice", facts, starts.size());
  for (size_t i = 0; i < which.size(); ++i) {
    const int axis = which[i];
    if (steps[i] == 0)
      throw Error(ErrorCode::kUsage, format("Slice has the step 0 along axis {}", axis));
    if (shape[axis] < 0 && is_whole(starts[i], ends[i], steps[i])) continue;
    if (shape[axis] < 0)
      throw Error(ErrorCode::kUsage,
                  format("Slice of {} along axis {}, the batch: name another axis",
                         to_string(shape), axis));
    axes[static_cast<size_t>(axis)] = sliced(shape[axis], starts[i], ends[i], steps[i]);
  }
  return std::make_unique<Moved>("Slice", facts, std::move(axes));
}

}  // namespace

OperatorDefinitions define_slice() {
  return {
      {.name = "Slice",
       .inputs = {{"data"}},
       .outputs = {{"output"}},
       .attributes = {{"axes", AttributeType::kInts},
                      {"ends", AttributeType::kInts},
                      {"starts", AttributeType::kInts},
                      {"steps", AttributeType::kInts},
                      format_attribute()},
       .input_attributes = {{"starts", 1, 10}, {"ends", 2, 10}, {"axes", 3, 10}, {"steps", 4, 10}},
       .bind = bind_slice,
       .channels_last = [](const NodeFacts& facts) {
         const auto count = attribute_ints(facts.attributes, "starts", {}).size();
         return some_axes_channels_last(facts, some_axes("Slice", facts, count));
       }}};
}

}  // namespace kerf::ops
