#include "partitioner/cuts/ties.h"

#include <algorithm>

#include "partitioner/at.h"

namespace kerf::partitioner {
namespace {

using ops::Box;
using ops::IterationSpace;
using ops::Layout;

// Whether each of the node's features takes several of an activation's.
bool ties_features(const Model& model, NodeId node, const IterationSpace& space) {
  const int features = feature_axis(space, 2);
  if (features < 0 || model.op(node).is_loss() || is_one_to_all(model, node, space)) return false;
  for (size_t k = 0; k < space.inputs.size(); ++k) {
    if (k >= model.node(node).inputs.size() || !is_activation(model, node, k)) continue;
    for (const ops::OperandAxis& axis : space.inputs[k].axes) {
      const auto found = std::find(axis.axes.begin(), axis.axes.end(), features);
      if (found == axis.axes.end()) continue;
      int64_t tied = space.axes[at(features)].unit;
      for (auto inner = found + 1; inner != axis.axes.end(); ++inner)
        tied *= space.axes[at(*inner)].extent;
      if (tied > 1) return true;
    }
  }
  return false;
}

}  // namespace

Ties::Ties(const Spaces& spaces) : spaces_(spaces), toward_(at(spaces.model().nodes()), -1) {
  const Model& model = spaces.model();
  for (NodeId node = model.nodes(); node-- > 0;) {
    NodeId& toward = toward_[at(node)];
    if (ties_features(model, node, spaces.of(node))) {
      toward = node;
      continue;
    }
    for (const ValueId output : model.node(node).outputs)
      for (const Use& use : model.uses(output))
        if (toward < 0 && toward_[at(use.node)] >= 0 &&
            !is_one_to_all(model, use.node, spaces.of(use.node)))
          toward = use.node;
  }
}

// What the reader's parts read of the node, as its iterations.
std::optional<Layout> Ties::as_read(NodeId node, const Layout& reader, int64_t largest) const {
  const Model& model = spaces_.model();
  const IterationSpace& space = spaces_.of(node);
  const NodeId toward = toward_[at(node)];
  Layout layout;
  for (const ops::Share& share : reader.shares) {
    Box read{std::vector<ops::IndexSet>(space.axes.size(), ops::IndexSet::none())};
    for (size_t o = 0; o < model.node(node).outputs.size(); ++o)
      for (const Use& use : model.uses(model.node(node).outputs[o])) {
        if (use.node != toward) continue;
        const Box box = ops::input_box(model.op(toward), use.input, share.box, largest);
        const auto iterations =
            iterations_with(space, space.outputs[o],
                            model.value(model.node(node).outputs[o]).spec.shape, box, largest);
        if (!iterations) return {};
        read = ops::hull(read, *iterations);
      }
    layout.shares.push_back({share.part, std::move(read)});
  }
  return sound(spaces_, node, std::move(layout), largest);
}

std::optional<Layout> Ties::division(NodeId node, const std::vector<int>& group,
                                     int64_t largest) const {
  std::vector<NodeId> path;
  for (NodeId next = node; next >= 0; next = toward_[at(next)]) {
    if (!path.empty() && path.back() == next) break;
    path.push_back(next);
  }
  const NodeId tie = path.back();
  if (toward_[at(tie)] != tie || feature_units(spaces_.of(tie), 2) < std::ssize(group)) return {};
  std::optional<Layout> layout = spaces_.by_features(tie, group);
  path.pop_back();
  for (; layout && !path.empty(); path.pop_back()) layout = as_read(path.back(), *layout, largest);
  return layout;
}

}  // namespace kerf::partitioner
