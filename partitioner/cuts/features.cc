#include "partitioner/cuts/features.h"

#include <algorithm>
#include <map>

#include "partitioner/at.h"
#include "partitioner/cuts/feature_patterns.h"
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

int64_t number_of_units(const ops::IterationAxis& axis) { return axis.extent / axis.unit; }

std::vector<IndexSet> sets_of_axis(const ops::IterationAxis& axis, std::span<const int> parts,
                                   const UnitSets& sets) {
  std::vector<IndexSet> indices;
  for (const IndexSet& units : sets(number_of_units(axis), parts))
    indices.push_back(units.empty() ? IndexSet::none() : in_indices(units, axis));
  return indices;
}

// The axis that divides each index of the feature axis further, where each has as many of the
// parts: the next one of the product that the output's axis is; -1 if there is none.
int axis_within(const IterationSpace& space, int features, int parts) {
  const int64_t units = number_of_units(space.axes[at(features)]);
  if (units >= parts || parts % units != 0) return -1;
  for (const OperandAxis& axis : space.outputs[0].axes)
    for (size_t i = 0; i + 1 < axis.axes.size(); ++i) {
      const int next = axis.axes[i + 1];
      if (axis.axes[i] == features && space.axes[at(next)].undivided.empty() &&
          space.axes[at(next)].extent > 1)
        return next;
    }
  return -1;
}

// How many of the parts the axis gives units to.
int64_t parts_served(const IterationSpace& space, int axis, int parts) {
  const int within = axis_within(space, axis, parts);
  const int64_t pieces = within < 0 ? 1 : number_of_units(space.axes[at(within)]);
  return std::min<int64_t>(parts, number_of_units(space.axes[at(axis)]) * pieces);
}

}  // namespace

bool is_stretch(const IterationSpace& space, const OperandAxis& axis, int64_t extent) {
  return axis.axes.size() == 1 && axis.segments.empty() && !axis.window &&
         space.axes[at(axis.axes[0])].extent != extent;
}

Spaces::Spaces(const Model& model, bool by_rewrites, std::vector<double> speeds)
    : model_(model), speeds_(std::move(speeds)) {
  if (!by_rewrites) return;
  for (NodeId node = 0; node < model.nodes(); ++node)
    rewritten_.push_back(space_with_rewrites(model.node(node)));
}

Layout Spaces::by_features(NodeId node, const std::vector<int>& group) const {
  return divide_features(of(node), group, [&](int64_t units, std::span<const int> parts) {
    return shares_of(units, parts, speeds_);
  });
}

Layout Spaces::by_samples(NodeId node, const std::vector<int>& group, int64_t largest) const {
  return divide_by_samples(of(node), group, largest, speeds_);
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

int feature_axis(const IterationSpace& space, int parts) {
  int best = -1;
  int64_t most = 0;  // parts
  for (int i = 0; i < static_cast<int>(space.axes.size()); ++i) {
    const ops::IterationAxis& axis = space.axes[at(i)];
    if (axis.kind != AxisKind::kFeature || !axis.undivided.empty()) continue;
    const int64_t served = parts_served(space, i, parts);
    if (best >= 0 && served <= most) continue;
    best = i;
    most = served;
  }
  return best;
}

int64_t feature_units(const IterationSpace& space, int parts) {
  const int axis = feature_axis(space, parts);
  return axis < 0 ? 0 : number_of_units(space.axes[at(axis)]);
}

Layout divide_features(const IterationSpace& space, const std::vector<int>& group,
                       const UnitSets& sets) {
  const auto parts = static_cast<int>(group.size());
  const int axis = feature_axis(space, parts);
  const auto rank = static_cast<int>(space.axes.size());
  const int within = axis_within(space, axis, parts);
  const ops::IterationAxis& outer = space.axes[at(axis)];
  if (within < 0) return Layout::split(group, rank, axis, sets_of_axis(outer, group, sets));
  Layout layout;
  const auto each = at(parts / static_cast<int>(number_of_units(outer)));  // parts of a unit
  for (size_t unit = 0; unit * each < group.size(); ++unit) {
    const auto of_unit = std::span(group).subspan(unit * each, each);
    const auto index = static_cast<int64_t>(unit);
    const std::vector<IndexSet> inner = sets_of_axis(space.axes[at(within)], of_unit, sets);
    for (size_t i = 0; i < each; ++i) {
      Box box = Box::whole(rank);
      box.axes[at(axis)] = in_indices(IndexSet::range(index, index + 1), outer);
      box.axes[at(within)] = inner[i];
      if (!box.empty()) layout.shares.push_back({of_unit[i], std::move(box)});
    }
  }
  return layout;
}

bool is_one_to_all(const Model& model, NodeId node, const IterationSpace& space) {
  const int axis = feature_axis(space, 2);
  if (axis < 0 || model.op(node).is_loss()) return false;
  const auto& operands = model.op(node).inputs();
  for (size_t k = 0; k < operands.size(); ++k)
    if (operands[k].present && !ops::is_kept(operands[k].role) &&
        ops::has_axis(space.inputs[k], axis))
      return false;
  return true;
}

}  // namespace kerf::partitioner
