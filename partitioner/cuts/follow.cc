#include "partitioner/cuts/follow.h"

#include <algorithm>
#include <map>

#include "partitioner/at.h"

namespace kerf::partitioner {
namespace {

using ops::AxisKind;
using ops::Box;
using ops::IterationSpace;
using ops::Layout;

bool has_stretch(const IterationSpace& space, const ops::OperandMap& map,
                 const ops::Shape& operand) {
  for (int i = 0; i < operand.rank(); ++i)
    if (is_stretch(space, map.axes[at(i)], operand[i])) return true;
  return false;
}

// Whether the iterations divide axes that results are summed over, and whether others.
struct Divides {
  bool sums = false;
  bool others = false;
};
Divides divides(const IterationSpace& space, const Box& iterations) {
  Divides result;
  for (size_t i = 0; i < space.axes.size(); ++i)
    if (!iterations.axes[i].is_all())
      (space.axes[i].kind == AxisKind::kSummed ? result.sums : result.others) = true;
  return result;
}

}  // namespace

std::optional<Layout> Following::put_together(NodeId producer, int output) const {
  const ops::BoundOperator& op = spaces_.model().op(producer);
  const Layout& division = division_.nodes[at(producer)];
  const bool partial =
      std::any_of(division.shares.begin(), division.shares.end(), [&](const ops::Share& share) {
        return !ops::partial_slices(op.space(), op.space().outputs[at(output)], share.box).empty();
      });
  if (!partial) return division;
  if (feature_units(spaces_.of(producer), static_cast<int>(group_.size())) < 2) return {};
  if (auto tied = ties_.division(producer, group_, division_.largest)) return tied;
  return spaces_.by_features(producer, group_);
}

std::optional<Layout> Following::iterations_of_holders(NodeId node, size_t k) const {
  const Model& model = spaces_.model();
  const Value& value = model.value(model.node(node).inputs[k]);
  const Layout& held_by = division_.nodes[at(value.producer)];
  for (const ops::Share& share : held_by.shares)
    if (std::find(group_.begin(), group_.end(), share.part) == group_.end()) return {};
  const auto source = put_together(value.producer, value.output);
  if (!source || (model.op(node).is_loss() && *source != held_by)) return {};
  const IterationSpace& space = spaces_.of(node);
  Layout layout;
  for (const ops::Share& share : source->shares) {
    const Box held =
        ops::output_box(model.op(value.producer), value.output, share.box, division_.largest);
    auto box = iterations_with(space, space.inputs[k], value.spec.shape, held, division_.largest);
    if (!box) return {};
    if (!box->empty()) layout.shares.push_back({share.part, *std::move(box)});
  }
  return layout;
}

std::optional<Layout> Following::follow(NodeId node, size_t k) const {
  const IterationSpace& space = spaces_.of(node);
  auto layout = iterations_of_holders(node, k);
  if (!layout) return {};
  for (const ops::Share& share : layout->shares)
    if (divides(space, share.box).sums) return {};
  return sound(spaces_, node, *std::move(layout), division_.largest);
}

std::optional<Layout> Following::follow_stretches(NodeId node) const {
  const Model& model = spaces_.model();
  const IterationSpace& space = spaces_.of(node);
  std::map<int, Box> boxes;
  for (size_t k = 0; k < model.node(node).inputs.size(); ++k) {
    if (!is_activation(model, node, k)) continue;
    const ops::Shape& shape = model.value(model.node(node).inputs[k]).spec.shape;
    if (!has_stretch(space, space.inputs[k], shape)) return {};
    const auto layout = iterations_of_holders(node, k);
    if (!layout) continue;  // it comes from elsewhere, wherever it is needed
    for (const ops::Share& share : layout->shares) {
      const auto [known, added] = boxes.emplace(share.part, share.box);
      if (!added) known->second = ops::hull(known->second, share.box);
    }
  }
  Layout layout;
  for (auto& [part, box] : boxes) layout.shares.push_back({part, std::move(box)});
  return sound(spaces_, node, std::move(layout), division_.largest);
}

std::optional<Layout> Following::follow_sums(NodeId node, size_t k) const {
  const IterationSpace& space = spaces_.of(node);
  auto layout = iterations_of_holders(node, k);
  if (!layout) return {};
  for (const ops::Share& share : layout->shares) {
    const Divides divided = divides(space, share.box);
    if (!divided.sums || divided.others) return {};
  }
  return sound(spaces_, node, *std::move(layout), division_.largest);
}

}  // namespace kerf::partitioner
