#include "ops/moved.h"

#include <algorithm>

namespace kerf::ops {
namespace {

Shape moved_shape(const Shape& from, const std::vector<MovedAxis>& axes) {
  Shape to = from;
  for (int i = 0; i < from.rank(); ++i)
    if (const MovedAxis& axis = axes[static_cast<size_t>(i)]; !axis.moves.empty()) {
      KERF_CHECK(from[i] >= 0, "axis {} of {} is moved", i, to_string(from));
      to[i] = axis.extent;
    }
  return to;
}

}  // namespace

Moved::Moved(std::string_view name, const NodeFacts& facts, std::vector<MovedAxis> axes,
             double fill)
    : BoundOperator(name, facts), axes_(std::move(axes)), fill_(fill) {
  const Shape& from = shape(0);
  outputs_ = {{input(0).spec.dtype, moved_shape(from, axes_)}};
  const int rank = from.rank();
  space_ = {axes_of_image(image_format(facts), from), {same_axes(rank)}, {same_axes(rank)}};
  for (int i = 0; i < rank; ++i) {
    const auto at = static_cast<size_t>(i);
    const MovedAxis& axis = axes_[at];
    if (axis.moves.empty()) continue;
    if (!axis.undivided.empty()) {
      space_.axes[at].extent = axis.extent;
      space_.axes[at].undivided = axis.undivided;
      space_.inputs[0].axes[at].axes.clear();
      continue;
    }
    const AxisMove& move = axis.moves[0];
    const int64_t input_at = std::max<int64_t>(0, move.to - move.from);
    const int64_t output_at = std::max<int64_t>(0, move.from - move.to);
    space_.inputs[0].axes[at].offset = input_at;
    space_.outputs[0].axes[at].offset = output_at;
    space_.axes[at].extent = std::max(input_at + from[i], output_at + axis.extent);
  }
}

std::vector<AxisMove> Moved::local_moves(int axis, const IndexSet& iterations) const {
  const auto at = static_cast<size_t>(axis);
  const MovedAxis& whole = axes_[at];
  if (whole.moves.empty() || iterations.is_all() || !whole.undivided.empty()) return whole.moves;
  const auto held = [&](int64_t begin, int64_t end) {
    return intersect(iterations, IndexSet::range(begin, end)).size(space_.axes[at].extent);
  };
  const AxisMove& move = whole.moves[0];
  const int64_t input_at = space_.inputs[0].axes[at].offset;
  const int64_t output_at = space_.outputs[0].axes[at].offset;
  const int64_t begin = input_at + move.from;
  return {{held(input_at, begin), held(output_at, begin), held(begin, begin + move.count), 1}};
}

Cost Moved::cost(const LocalSpecs& local) const {
  const double x = static_cast<double>(local.inputs[0].shape.elements());
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  const double element = static_cast<double>(size_of(input(0).spec.dtype));
  const bool weights = input(0).in_weight_gradient();
  const double back = element * (x + std::min(x, y));
  return {0, 0, 0, element * (y + std::min(x, y)), weights ? 0 : back, weights ? back : 0};
}

std::vector<int> some_axes(std::string_view op, const NodeFacts& facts, size_t count) {
  const int rank = facts.inputs[0].spec.shape.rank();
  std::vector<int64_t> wanted = attribute_ints(facts.attributes, "axes", {});
  if (wanted.empty())
    for (size_t i = 0; i < count; ++i) wanted.push_back(static_cast<int64_t>(i));
  std::vector<int> axes;
  for (const int64_t each : wanted) {
    axes.push_back(resolved_axis(op, each, rank));
    if (std::count(axes.begin(), axes.end(), axes.back()) > 1)
      throw Error(ErrorCode::kUsage, format("{} names axis {} twice", op, each));
  }
  if (axes.size() != count)
    throw Error(ErrorCode::kUsage,
                format("{} names {} axes, but says what to do with {}", op, axes.size(), count));
  return axes;
}

std::optional<ChannelsLast> some_axes_channels_last(const NodeFacts& facts,
                                                    const std::vector<int>& axes) {
  std::optional<ChannelsLast> node = image_channels_last(facts);
  if (!node) return node;
  std::vector<int64_t> stored;
  for (const int axis : axes)
    stored.push_back(
        stored_axis(ImageFormat::kChannelsLast, axis, facts.inputs[0].spec.shape.rank()));
  node->attributes["axes"] = stored;
  return node;
}

}  // namespace kerf::ops
