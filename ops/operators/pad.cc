// Pad (ONNX, opset 25; pads, value and axes as attributes): indices put before and behind those of
// some axes, or, where pads are negative, taken away.
//
// Attribute mode: `constant` (the default) fills with `value`; `edge` repeats the first and the
// last index; `reflect` goes back from them; `wrap` goes on at the other end. Any element type. An
// axis that is padded with a constant divides; the other modes read all over theirs. The batch is
// not padded.
#include <algorithm>

#include "ops/moved.h"

namespace kerf::ops {
namespace {

// The input's index that stands at `place`, which may lie outside of [0, extent).
int64_t source_of(const std::string& mode, int64_t place, int64_t extent) {
  if (mode == "edge") return std::clamp<int64_t>(place, 0, extent - 1);
  if (mode == "wrap") return (place % extent + extent) % extent;
  const int64_t period = std::max<int64_t>(1, 2 * (extent - 1));
  const int64_t within = (place % period + period) % period;
  return std::min(within, period - within) % extent;
}

// Output indices in order, as few moves as that takes: an axis that is gone over thousands of times
// is none that anyone pads.
std::vector<AxisMove> moves_of(const std::string& mode, int64_t extent, int64_t before,
                               int64_t output) {
  constexpr size_t kMostMoves = 1 << 12;
  std::vector<AxisMove> moves;
  for (int64_t i = 0; i < output; ++i) {
    if (moves.size() > kMostMoves)
      throw Error(ErrorCode::kUsage,
                  format("Pad by '{}' goes over an axis of {} more than {} times", mode, extent,
                         kMostMoves));
    const int64_t from = source_of(mode, i - before, extent);
    if (!moves.empty()) {
      AxisMove& last = moves.back();
      const int64_t step = from - (last.from + (last.count - 1) * last.step);
      if (step >= -1 && step <= 1 && (last.count == 1 || last.step == step)) {
        last.step = step;
        ++last.count;
        continue;
      }
    }
    moves.push_back({from, i, 1, 1});
  }
  return moves;
}

MovedAxis padded(const std::string& mode, int64_t extent, int64_t before, int64_t after) {
  constexpr int64_t kMost = int64_t{1} << 40;
  const auto far = [](int64_t pad) { return pad > kMost || pad < -kMost; };
  if (far(before) || far(after) || extent + before + after < 0)
    throw Error(ErrorCode::kUsage,
                format("Pad: pads {} and {} leave nothing of an axis of {}, or too much", before,
                       after, extent));
  MovedAxis axis{{}, extent + before + after, {}};
  if (mode == "constant" || (before <= 0 && after <= 0)) {
    const int64_t from = std::max<int64_t>(0, -before);
    const int64_t end = std::min(extent, extent + after);
    axis.moves = {{from, std::max<int64_t>(0, before), std::max<int64_t>(0, end - from), 1}};
    return axis;
  }
  constexpr int64_t kMostRead = int64_t{1} << 24;  // index by index
  if (axis.extent > kMostRead)
    throw Error(ErrorCode::kUsage, format("Pad by '{}' gives {} indices at most, not {}", mode,
                                          kMostRead, axis.extent));
  if (extent < 1 || (mode == "reflect" && extent < 2))
    throw Error(ErrorCode::kUsage, format("Pad: an axis of {} has nothing to {}", extent, mode));
  axis.moves = moves_of(mode, extent, before, axis.extent);
  axis.undivided = format("padding by '{}' reads all over it", mode);
  return axis;
}

std::string mode_of(const NodeFacts& facts) {
  std::string mode = attribute_string(facts.attributes, "mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap")
    throw Error(ErrorCode::kUsage,
                format("Pad knows the modes constant, edge, reflect and wrap, not '{}'", mode));
  return mode;
}

std::vector<int64_t> pads_of(const NodeFacts& facts) {
  auto pads = attribute_ints(facts.attributes, "pads", {});
  const auto rank = static_cast<size_t>(facts.inputs[0].spec.shape.rank());
  const bool all = attribute_ints(facts.attributes, "axes", {}).empty();
  if (pads.size() % 2 != 0 || (all && pads.size() != 2 * rank))
    throw Error(ErrorCode::kUsage,
                format("Pad wants two pads for each axis of {}, or of those in 'axes', not {}",
                       to_string(facts.inputs[0].spec.shape), pads.size()));
  return pads;
}

std::unique_ptr<const BoundOperator> bind_pad(const NodeFacts& facts) {
  const Shape& shape = facts.inputs[0].spec.shape;
  const std::string mode = mode_of(facts);
  const auto pads = pads_of(facts);
  std::vector<MovedAxis> axes(static_cast<size_t>(shape.rank()));
  const std::vector<int> which = some_axes("Pad", facts, pads.size() / 2);
  for (size_t i = 0; i < which.size(); ++i) {
    const int axis = which[i];
    const int64_t before = pads[i];
    const int64_t after = pads[i + which.size()];
    if (before == 0 && after == 0) continue;
    if (shape[axis] < 0)
      throw Error(ErrorCode::kUsage, format("Pad of {} along axis {}, the batch: it is not padded",
                                            to_string(shape), axis));
    axes[static_cast<size_t>(axis)] = padded(mode, shape[axis], before, after);
  }
  return std::make_unique<Moved>("Pad", facts, std::move(axes),
                                 attribute_float(facts.attributes, "value", 0));
}

}  // namespace

OperatorDefinitions define_pad() {
  return {{.name = "Pad",
           .inputs = {{"data"}},
           .outputs = {{"output"}},
           .attributes = {{"axes", AttributeType::kInts},
                          {"mode", AttributeType::kString},
                          {"pads", AttributeType::kInts},
                          {"value", AttributeType::kFloat},
                          format_attribute()},
           .input_attributes = {{"pads", 1, 11}, {"value", 2, 11}, {"axes", 3, 18}},
           .bind = bind_pad,
           .channels_last =
               [](const NodeFacts& facts) {
                 const auto count = attribute_ints(facts.attributes, "pads", {}).size() / 2;
                 return some_axes_channels_last(facts, some_axes("Pad", facts, count));
               },
           .first_opset = 2}};  // before it, `pads` was `paddings`
}

}  // namespace kerf::ops
