#include "partitioner/cuts/spread.h"

#include <algorithm>
#include <map>

#include "ops/refold.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {
namespace {

using ops::Box;
using ops::IndexSet;
using ops::Layout;
using ops::SplitRule;

SplitRule ask(const Model& model, NodeId node, const Box& box) {
  return model.op(node).split(model.node(node).attributes, model.input_specs(node),
                              model.output_specs(node)[0], box);
}

// The box of the output that follows `box` of input `k`, if the operator agrees.
std::optional<Box> followed(const Model& model, NodeId node, size_t k, const Box& box) {
  const ops::Shape from = model.input_specs(node)[k].shape;
  const ops::Shape to = model.output_specs(node)[0].shape;
  std::optional<Box> output;
  if (from.rank() != to.rank()) {
    output = ops::refold(box, from, to);
  } else {
    output = box;
    for (int axis = 0; axis < to.rank(); ++axis)
      if (from[axis] != to[axis] && !box.axes[static_cast<size_t>(axis)].is_all()) return {};
  }
  if (!output) return {};
  const SplitRule rule = ask(model, node, *output);
  if (rule.kind != SplitRule::Kind::kBoxes || ops::normalized(rule.inputs[k].box, from) != box)
    return {};
  return output;
}

// The layout that follows that of input `k`; none if that is elsewhere or cannot be followed.
std::optional<Layout> follow(const Model& model, NodeId node, size_t k,
                             const std::vector<int>& group, const std::vector<Layout>& layouts) {
  const ValueId value = model.node(node).inputs[k];
  Layout layout = layouts[static_cast<size_t>(value)];
  if (layout.shares.empty()) return {};
  for (ops::Share& share : layout.shares) {
    if (std::find(group.begin(), group.end(), share.part) == group.end()) return {};
    const auto box = followed(model, node, k, share.box);
    if (!box) return {};
    share.box = *box;
  }
  return layout;
}

std::optional<Layout> follow_any(const Model& model, NodeId node, const std::vector<int>& group,
                                 const std::vector<Layout>& layouts) {
  const auto& inputs = model.node(node).inputs;
  bool data_only = true;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const ValueRole role = model.value(inputs[k]).role;
    if (role == ValueRole::kActivation) {
      data_only = false;
      if (auto layout = follow(model, node, k, group, layouts)) return layout;
    }
  }
  if (!data_only) return {};
  return Layout::replicated(group, model.output_specs(node)[0].shape.rank());
}

void check_busy(int workers, const std::map<int, double>& by_part) {
  for (int worker = 0; worker < workers; ++worker)
    if (!by_part.contains(worker))
      throw Error(ErrorCode::kInfeasible,
                  format("{} workers, but worker {} would have nothing to compute: no operator has "
                         "features for it; use --workers {} or fewer",
                         workers, worker, by_part.size()));
}

void measure(const Model& model, const PlanRequest& request, Assignment& assignment) {
  std::map<int, double> by_part;
  double total = 0;
  for (NodeId node = 0; node < model.nodes(); ++node) {
    const ValueId output = model.node(node).outputs[0];
    const auto& shares = assignment.layouts[static_cast<size_t>(output)].shares;
    for (const ops::Share& share : shares)
      by_part[share.part] += node_work(model, request, node, share.box).total();
    total +=
        node_work(model, request, node, Box::whole(model.value(output).spec.shape.rank())).total();
  }
  check_busy(request.workers, by_part);
  assignment.bound = total / request.workers;
}

}  // namespace

bool is_one_to_all(const Model& model, NodeId node) {
  const ops::Operator& op = model.op(node);
  if (op.follows_input() || op.is_loss() || op.feature_axis() < 0) return false;
  return ask(model, node, feature_box(model, node, IndexSet::range(0, 1))).kind !=
         SplitRule::Kind::kGather;
}

Box feature_box(const Model& model, NodeId node, const IndexSet& set) {
  const ops::Shape shape = model.output_specs(node)[0].shape;
  Box box = Box::whole(shape.rank());
  const int axis = model.op(node).feature_axis();
  if (axis >= 0) box.axes[static_cast<size_t>(axis)] = set.normalized(shape[axis]);
  return box;
}

Layout spread(const Model& model, NodeId node, const std::vector<int>& group,
              const std::vector<Layout>& layouts) {
  const ops::Operator& op = model.op(node);
  const ops::Shape shape = model.output_specs(node)[0].shape;
  const int axis = op.feature_axis();
  std::optional<Layout> layout;
  if (op.follows_input()) layout = follow_any(model, node, group, layouts);
  if (!layout && axis >= 0 && axis < shape.rank())
    layout = Layout::split(group, shape.rank(), axis,
                           ops::split_evenly(shape[axis], static_cast<int>(group.size())));
  Layout whole = Layout::whole(group.front(), shape.rank());
  if (!layout) return whole;
  for (const ops::Share& share : layout->shares)
    if (ask(model, node, share.box).kind == SplitRule::Kind::kGather) return whole;
  return *layout;
}

Assignment spread_all(const Model& model, const PlanRequest& request, std::vector<Stage> stages,
                      const std::vector<std::optional<Layout>>& given) {
  Assignment assignment;
  assignment.layouts.resize(static_cast<size_t>(model.values()));
  for (const Stage& stage : stages)
    for (const NodeId node : stage.nodes) {
      const auto at = static_cast<size_t>(node);
      const Layout layout =
          given[at] ? *given[at] : spread(model, node, stage.parts, assignment.layouts);
      for (const ValueId output : model.node(node).outputs)
        assignment.layouts[static_cast<size_t>(output)] = layout;
    }
  assignment.stages = std::move(stages);
  measure(model, request, assignment);
  return assignment;
}

}  // namespace kerf::partitioner
