#include "partitioner/cuts/features.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

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

// The axis that divides each index of the feature axis further, where those are fewer than the
// parts: the next one of the product that the output's axis is; -1 if there is none.
int axis_within(const IterationSpace& space, int features, int parts) {
  if (number_of_units(space.axes[at(features)]) >= parts) return -1;
  for (const OperandAxis& axis : space.outputs[0].axes)
    for (size_t i = 0; i + 1 < axis.axes.size(); ++i) {
      const int next = axis.axes[i + 1];
      if (axis.axes[i] == features && space.axes[at(next)].undivided.empty() &&
          space.axes[at(next)].extent > 1)
        return next;
    }
  return -1;
}

IndexSet all_of(std::span<const IndexSet> sets) {
  return std::accumulate(sets.begin(), sets.end(), IndexSet::none(), ops::unite);
}

// So many parts over units that are fewer: each has as many of its own, and some are left.
struct PartsOfUnits {
  PartsOfUnits(int parts, int64_t of)
      : units(static_cast<size_t>(of)), own(at(parts) / units), left(at(parts) % units) {}
  // Where each is of one unit, those that are left join the first units.
  size_t first_of(size_t unit) const { return unit * own + std::min(unit, left); }
  size_t count_of(size_t unit) const { return own + (unit < left ? 1 : 0); }

  size_t units;
  size_t own;
  size_t left;
};

// How many of the parts the axis gives units to.
int64_t parts_served(const IterationSpace& space, int axis, int parts) {
  const int64_t units = number_of_units(space.axes[at(axis)]);
  const int within = axis_within(space, axis, parts);
  if (within < 0) return std::min<int64_t>(parts, units);
  const int64_t pieces = number_of_units(space.axes[at(within)]);
  if (pieces >= parts) return parts;
  const PartsOfUnits of(parts, units);
  int64_t served = 0;
  for (size_t unit = 0; unit < of.units; ++unit)
    served += std::min<int64_t>(pieces, static_cast<int64_t>(of.count_of(unit)));
  return served;
}

// Whether the axis divides features too: what a reshape takes them apart into, as the channels of
// each half that a shuffle takes by turns.
bool is_of_features(const IterationSpace& space, int axis) {
  if (space.axes[at(axis)].kind == AxisKind::kFeature) return true;
  if (space.axes[at(axis)].kind != AxisKind::kSpace || space.inputs.empty()) return false;
  for (const OperandAxis& each : space.inputs[0].axes) {
    const auto found = std::find(each.axes.begin(), each.axes.end(), axis);
    if (found == each.axes.end()) continue;
    return std::any_of(each.axes.begin(), found,
                       [&](int outer) { return space.axes[at(outer)].kind == AxisKind::kFeature; });
  }
  return false;
}

// Parts of a division within units, each with what it has of them.
class WithinUnits {
 public:
  WithinUnits(const IterationSpace& space, int features, int within, const std::vector<int>& group,
              const UnitSets& sets)
      : space_(space),
        features_(features),
        within_(within),
        group_(group),
        sets_(sets),
        of_(static_cast<int>(group.size()), number_of_units(space.axes[at(features)])) {}

  Layout divide() const {
    const int64_t pieces = number_of_units(space_.axes[at(within_)]);
    if (of_.left == 0 || pieces < std::ssize(group_)) return each_in_one();
    if (auto layout = some_in_all()) return *std::move(layout);
    return Layout::split(group_, rank(), within_, inner_sets(group_));
  }

 private:
  int rank() const { return static_cast<int>(space_.axes.size()); }
  std::vector<IndexSet> inner_sets(std::span<const int> parts) const {
    return sets_of_axis(space_.axes[at(within_)], parts, sets_);
  }
  void add(Layout& layout, int part, const IndexSet& outer, const IndexSet& inner) const {
    Box box = Box::whole(rank());
    box.axes[at(features_)] = outer;
    box.axes[at(within_)] = inner;
    if (!box.empty()) layout.shares.push_back({part, std::move(box)});
  }
  IndexSet indices_of(size_t unit) const {
    const auto index = static_cast<int64_t>(unit);
    return in_indices(IndexSet::range(index, index + 1), space_.axes[at(features_)]);
  }

  Layout each_in_one() const {
    Layout layout;
    for (size_t unit = 0; unit < of_.units; ++unit) {
      const auto parts = std::span(group_).subspan(of_.first_of(unit), of_.count_of(unit));
      const std::vector<IndexSet> inner = inner_sets(parts);
      for (size_t i = 0; i < parts.size(); ++i) add(layout, parts[i], indices_of(unit), inner[i]);
    }
    return layout;
  }

  // Those that are left have some of every unit, as much of each as makes shares even: to a part of
  // one unit it gives as many portions as there are units, to one of all units a portion of each.
  // Nothing where units would give those different portions, as parts of different speeds.
  std::optional<Layout> some_in_all() const {
    const auto last = std::span(group_).last(of_.left);
    std::vector<IndexSet> of_last;
    Layout layout;
    for (size_t unit = 0; unit < of_.units; ++unit) {
      const auto own = std::span(group_).subspan(unit * of_.own, of_.own);
      std::vector<int> portions;
      for (const int part : own) portions.insert(portions.end(), of_.units, part);
      portions.insert(portions.end(), last.begin(), last.end());
      const std::vector<IndexSet> inner = inner_sets(portions);
      for (size_t i = 0; i < own.size(); ++i)
        add(layout, own[i], indices_of(unit),
            all_of(std::span(inner).subspan(i * of_.units, of_.units)));
      std::vector<IndexSet> rest(inner.end() - static_cast<std::ptrdiff_t>(of_.left), inner.end());
      if (unit > 0 && rest != of_last) return {};
      of_last = std::move(rest);
    }
    for (size_t i = 0; i < last.size(); ++i) add(layout, last[i], IndexSet::all(), of_last[i]);
    return layout;
  }

  const IterationSpace& space_;
  const int features_;
  const int within_;
  const std::vector<int>& group_;
  const UnitSets& sets_;
  const PartsOfUnits of_;
};

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
    if (!axis.undivided.empty() || !is_of_features(space, i)) continue;
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
  if (within < 0)
    return Layout::split(group, rank, axis, sets_of_axis(space.axes[at(axis)], group, sets));
  return WithinUnits(space, axis, within, group, sets).divide();
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
