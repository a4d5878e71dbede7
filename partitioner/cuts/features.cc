#include "partitioner/cuts/features.h"

#include <algorithm>
#include <map>

#include "partitioner/at.h"
#include "partitioner/rewrite.h"

namespace kerf::partitioner {
namespace {

using ops::AxisKind;
using ops::Box;
using ops::IndexSet;
using ops::IterationSpace;
using ops::Layout;
using ops::OperandAxis;

IndexSet moved(const IndexSet& set, int64_t extent, int64_t by) {
  std::vector<ops::Range> ranges;
  for (const ops::Range& range : set.ranges(extent))
    ranges.push_back({range.begin + by, range.end + by});
  return IndexSet(std::move(ranges));
}

IndexSet in_indices(const IndexSet& units, const ops::IterationAxis& axis) {
  std::vector<ops::Range> ranges;
  for (const ops::Range& range : units.ranges(axis.extent / axis.unit))
    ranges.push_back({range.begin * axis.unit, range.end * axis.unit});
  return IndexSet(std::move(ranges)).normalized(axis.extent);
}

std::vector<IndexSet> even_sets(const ops::IterationAxis& axis, int parts) {
  std::vector<IndexSet> sets;
  for (const IndexSet& units : ops::split_evenly(axis.extent / axis.unit, parts))
    sets.push_back(in_indices(units, axis));
  return sets;
}

// The axis that divides each index of the feature axis further: the next one of the product that
// the output's axis is; -1 if there is none.
int axis_within(const IterationSpace& space, int features) {
  for (const OperandAxis& axis : space.outputs[0].axes)
    for (size_t i = 0; i + 1 < axis.axes.size(); ++i)
      if (axis.axes[i] == features && space.axes[at(axis.axes[i + 1])].undivided.empty())
        return axis.axes[i + 1];
  return -1;
}

}  // namespace

bool is_stretch(const IterationSpace& space, const OperandAxis& axis, int64_t extent) {
  return axis.axes.size() == 1 && axis.segments.empty() && !axis.window &&
         space.axes[at(axis.axes[0])].extent != extent;
}

Spaces::Spaces(const Model& model, bool by_rewrites) : model_(model) {
  if (!by_rewrites) return;
  for (NodeId node = 0; node < model.nodes(); ++node)
    rewritten_.push_back(space_with_rewrites(model.node(node)));
}

bool is_activation(const Model& model, NodeId node, size_t k) {
  const ValueId value = model.node(node).inputs[k];
  return value >= 0 && model.value(value).role == Role::kActivation;
}

std::optional<Box> iterations_with(const IterationSpace& space, const ops::OperandMap& map,
                                   const ops::Shape& operand, const Box& box, int64_t largest) {
  Box rest = ops::normalized(box, operand.with_batch(largest));
  std::map<int, IndexSet> stretches;
  for (int i = 0; i < operand.rank(); ++i) {
    const OperandAxis& axis = map.axes[at(i)];
    if (!is_stretch(space, axis, operand[i])) continue;
    stretches[axis.axes[0]] = moved(rest.axes[at(i)], operand[i], axis.offset);
    rest.axes[at(i)] = IndexSet::all();
  }
  auto iterations = ops::iterations_of(space, map, operand, rest, largest);
  if (iterations)
    for (auto& [axis, set] : stretches) iterations->axes[at(axis)] = std::move(set);
  return iterations;
}

std::optional<Layout> sound(const Spaces& spaces, NodeId node, Layout layout, int64_t largest) {
  const IterationSpace& space = spaces.of(node);
  const ops::Shape extents = space.extents().with_batch(largest);
  for (ops::Share& share : layout.shares) share.box = ops::normalized(share.box, extents);
  for (const ops::Share& share : layout.shares)
    if (!ops::check_iterations(space, share.box, largest).empty()) return {};
  if (!ops::check_layout(layout, extents).empty()) return {};
  return layout;
}

int feature_axis(const IterationSpace& space) {
  int first = -1;
  for (int i = 0; i < static_cast<int>(space.axes.size()); ++i) {
    const ops::IterationAxis& axis = space.axes[at(i)];
    if (axis.kind != AxisKind::kFeature || !axis.undivided.empty()) continue;
    if (axis.extent / axis.unit > 1) return i;
    if (first < 0) first = i;
  }
  return first;
}

int64_t feature_units(const IterationSpace& space) {
  const int axis = feature_axis(space);
  return axis < 0 ? 0 : space.axes[at(axis)].extent / space.axes[at(axis)].unit;
}

Layout divide_evenly_by_features(const IterationSpace& space, const std::vector<int>& group) {
  const int axis = feature_axis(space);
  const auto rank = static_cast<int>(space.axes.size());
  const auto parts = static_cast<int>(group.size());
  const auto units = static_cast<int>(std::min<int64_t>(feature_units(space), parts));
  const int within = axis_within(space, axis);
  const bool further =
      units < parts && parts % units == 0 && within >= 0 && space.axes[at(within)].extent > 1;
  if (!further) return Layout::split(group, rank, axis, even_sets(space.axes[at(axis)], parts));
  Layout layout;
  const std::vector<IndexSet> outer = even_sets(space.axes[at(axis)], units);
  const std::vector<IndexSet> inner = even_sets(space.axes[at(within)], parts / units);
  for (size_t i = 0; i < group.size(); ++i) {
    Box box = Box::whole(rank);
    box.axes[at(axis)] = outer[i / inner.size()];
    box.axes[at(within)] = inner[i % inner.size()];
    if (!box.empty()) layout.shares.push_back({group[i], std::move(box)});
  }
  return layout;
}

bool is_one_to_all(const Model& model, NodeId node, const IterationSpace& space) {
  const int axis = feature_axis(space);
  if (axis < 0 || model.op(node).is_loss()) return false;
  const auto& operands = model.op(node).inputs();
  for (size_t k = 0; k < operands.size(); ++k)
    if (operands[k].present && !ops::is_kept(operands[k].role) &&
        ops::has_axis(space.inputs[k], axis))
      return false;
  return true;
}

}  // namespace kerf::partitioner
