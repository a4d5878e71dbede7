#include "partitioner/cuts/spread.h"

#include <algorithm>

#include "partitioner/stage_price.h"

namespace kerf::partitioner {
namespace {

using ops::Box;
using ops::IndexSet;
using ops::Layout;

// Whether the iterations divide an axis that results are summed over.
bool divides_sums(const ops::IterationSpace& space, const Box& iterations) {
  for (size_t i = 0; i < space.axes.size(); ++i)
    if (space.axes[i].kind == ops::AxisKind::kSummed && !iterations.axes[i].is_all()) return true;
  return false;
}

// The division that follows the layout of input `k`; nothing where that is elsewhere, or is not
// to be followed without dividing a sum.
std::optional<Layout> follow(const Model& model, NodeId node, size_t k,
                             const std::vector<int>& group, const Division& division) {
  const Value& value = model.value(model.node(node).inputs[k]);
  const Layout& source = division.nodes[static_cast<size_t>(value.producer)];
  const ops::BoundOperator& producer = model.op(value.producer);
  const ops::BoundOperator& op = model.op(node);
  Layout layout;
  for (const ops::Share& share : source.shares) {
    if (std::find(group.begin(), group.end(), share.part) == group.end()) return {};
    const Box held = ops::output_box(producer, value.output, share.box, division.largest);
    auto box = ops::iterations_of(op.space(), op.space().inputs[k], value.spec.shape, held,
                                  division.largest);
    if (!box || divides_sums(op.space(), *box)) return {};
    if (!ops::check_iterations(op.space(), *box, division.largest).empty()) return {};
    layout.shares.push_back({share.part, std::move(*box)});
  }
  const ops::Shape extents = op.space().extents().with_batch(division.largest);
  if (!ops::check_layout(layout, extents).empty()) return {};
  return layout;
}

// Nothing where the node reads activations and can follow none.
std::optional<Layout> follow_any(const Model& model, NodeId node, const std::vector<int>& group,
                                 const Division& division) {
  const auto& inputs = model.node(node).inputs;
  bool data_only = true;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k] < 0 || model.value(inputs[k]).role != Role::kActivation) continue;
    data_only = false;
    if (auto layout = follow(model, node, k, group, division)) return layout;
  }
  if (!data_only) return {};
  return Layout::replicated(group, static_cast<int>(model.op(node).space().axes.size()));
}

bool has_replicas(const Layout& layout) {
  for (auto share = layout.shares.begin(); share != layout.shares.end(); ++share)
    if (std::any_of(layout.shares.begin(), share,
                    [&](const ops::Share& earlier) { return earlier.box == share->box; }))
      return true;
  return false;
}

}  // namespace

bool is_one_to_all(const Model& model, NodeId node) {
  const int axis = feature_axis(model, node);
  if (axis < 0 || model.op(node).is_loss()) return false;
  const auto& operands = model.op(node).inputs();
  for (size_t k = 0; k < operands.size(); ++k)
    if (operands[k].present && !ops::is_kept(operands[k].role) &&
        ops::has_axis(model.op(node).space().inputs[k], axis))
      return false;
  return true;
}

int feature_axis(const Model& model, NodeId node) {
  const auto& axes = model.op(node).space().axes;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].kind == ops::AxisKind::kFeature && axes[i].undivided.empty())
      return static_cast<int>(i);
  return -1;
}

Layout spread(const Model& model, NodeId node, const std::vector<int>& group,
              const Division& division) {
  if (!is_one_to_all(model, node))
    if (auto layout = follow_any(model, node, group, division))
      // Of replicas of a loss the first speaks; the others would work for nothing.
      if (!model.op(node).is_loss() || !has_replicas(*layout)) return *layout;
  const int axis = feature_axis(model, node);
  if (axis < 0) return whole_division(model, node, group.front());
  const ops::IterationAxis& features = model.op(node).space().axes[static_cast<size_t>(axis)];
  std::vector<IndexSet> sets;
  for (const IndexSet& units :
       ops::split_evenly(features.extent / features.unit, static_cast<int>(group.size()))) {
    std::vector<ops::Range> ranges;
    for (const ops::Range& range : units.ranges(features.extent / features.unit))
      ranges.push_back({range.begin * features.unit, range.end * features.unit});
    sets.push_back(IndexSet(std::move(ranges)).normalized(features.extent));
  }
  return Layout::split(group, static_cast<int>(model.op(node).space().axes.size()), axis, sets);
}

double even_share(const Model& model, const PlanRequest& request) {
  double total = 0;
  for (NodeId node = 0; node < model.nodes(); ++node)
    total += node_work(model, request, node, whole_division(model, node, 0).shares[0].box).total();
  return total / request.speed.capacities.speed_of_all(request.workers_bound());
}

Assignment spread_all(const Model& model, const PlanRequest& request, std::vector<Stage> stages,
                      double bound, const std::vector<std::optional<Layout>>& given) {
  Assignment assignment;
  assignment.bound = bound;
  Division& division = assignment.division;
  division.largest = request.largest_micro_batch();
  division.nodes.resize(static_cast<size_t>(model.nodes()));
  for (const Stage& stage : stages)
    for (const NodeId node : stage.nodes) {
      const auto at = static_cast<size_t>(node);
      division.nodes[at] = given[at] ? *given[at] : spread(model, node, stage.parts, division);
    }
  assignment.stages = std::move(stages);
  return assignment;
}

std::vector<int> idle_parts(const PlanRequest& request, const Division& division) {
  std::vector<bool> busy(static_cast<size_t>(request.workers));
  for (const Layout& layout : division.nodes)
    for (const ops::Share& share : layout.shares) busy[static_cast<size_t>(share.part)] = true;
  std::vector<int> idle;
  for (int part = 0; part < request.workers; ++part)
    if (!busy[static_cast<size_t>(part)]) idle.push_back(part);
  return idle;
}

void refuse_idle(const PlanRequest& request, int part, const std::string& reason) {
  throw Error(ErrorCode::kInfeasible,
              format("{} workers, but worker {} would have nothing to compute: {}", request.workers,
                     part, reason));
}

}  // namespace kerf::partitioner
