#include "partitioner/complete_plan.h"

#include <algorithm>

#include "partitioner/cut.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {

namespace {

// The division that a node's first output's layout, as it stands, comes from.
ops::Layout read_off_layout(const Model& model, const Plan& plan, NodeId node) {
  const ValueId output = model.node(node).outputs[0];
  const ops::Layout& layout = plan.layouts[static_cast<size_t>(output)];
  auto division = division_of(model, node, layout, plan.division.largest);
  if (!division)
    throw Error(ErrorCode::kUsage,
                format("{} cannot give {} {}; say in \"divisions\" how node {} is divided",
                       model.node(node).op, model.value(output).name, ops::describe(layout),
                       model.node(node).name));
  return *std::move(division);
}

void divide_nodes(const Model& model, const std::vector<bool>& left_out, Plan& plan) {
  for (const Stage& stage : plan.stages)
    for (const NodeId node : stage.nodes) {
      ops::Layout& division = plan.division.nodes[static_cast<size_t>(node)];
      if (!division.shares.empty()) continue;
      const ValueId output = model.node(node).outputs[0];
      if (!left_out[static_cast<size_t>(output)]) {
        division = read_off_layout(model, plan, node);
        continue;
      }
      auto implied = implied_division(model, plan.cut, stage, node, plan.division);
      if (!implied)
        throw Error(ErrorCode::kUsage,
                    format("\"layouts\" has no member \"{}\", and what a {} cut makes of it does "
                           "not follow from its stage",
                           model.value(output).name, to_string(plan.cut)));
      division = *std::move(implied);
    }
}

void lay_out(const Model& model, const std::vector<bool>& left_out, Plan& plan) {
  const std::vector<ops::Layout> follow = layouts_of(model, plan.division);
  for (size_t value = 0; value < left_out.size(); ++value)
    if (left_out[value]) plan.layouts[value] = follow[value];
}

PlanRequest request_of(const Plan& plan) {
  PlanRequest request;
  request.batch = plan.batch;
  request.micro_batches = plan.micro_batches;
  if (!plan.request) return request;
  request.setting = plan.request->setting;
  request.minimise = plan.request->minimise;
  return request;
}

}  // namespace

bool LeftOut::any() const {
  return routes || workers || bottleneck || bound ||
         std::find(layouts.begin(), layouts.end(), true) != layouts.end();
}

std::optional<ops::Layout> implied_division(const Model& model, Cut cut, const Stage& stage,
                                            NodeId node, const Division& division) {
  if (stage.parts.empty()) return ops::Layout{};  // validate_decisions() tells it
  if (stage.parts.size() == 1) return whole_division(model, node, stage.parts[0]);
  if (cut == Cut::kFree) return {};
  return spread(model, node, stage.parts, division);
}

void complete_plan(const Model& model, const LeftOut& left_out, const ObjectiveOf& objective_of,
                   Plan& plan) {
  divide_nodes(model, left_out.layouts, plan);
  if (!left_out.any()) return;
  if (const auto problems = validate_decisions(model, plan); !problems.empty())
    throw Error(ErrorCode::kUsage, problems.front());
  lay_out(model, left_out.layouts, plan);
  if (left_out.routes) plan.routes = connect(model, plan.division, stages_of_parts(plan));
  // Predictions index by routes: those that stand must be right first.
  Plan as_routed = plan;
  as_routed.routes = connect(model, plan.division, stages_of_parts(plan));
  const PlanRequest request = request_of(plan);
  if (left_out.workers) {
    const auto objective = objective_of ? objective_of(plan.schedule) : hold_everything();
    plan.workers = predict(model, as_routed, request, *objective);
  }
  if (left_out.bottleneck) plan.bottleneck = bottleneck_of(model, as_routed, request);
}

}  // namespace kerf::partitioner
