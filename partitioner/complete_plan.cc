#include "partitioner/complete_plan.h"

#include <algorithm>

#include "partitioner/cut.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {

namespace {

void lay_out_activations(const Model& model, const std::vector<bool>& left_out, Plan& plan) {
  for (const Stage& stage : plan.stages)
    for (const NodeId node : stage.nodes)
      for (const ValueId value : model.node(node).outputs) {
        const auto at = static_cast<size_t>(value);
        if (!left_out[at]) continue;
        const auto implied = implied_layout(model, plan.cut, stage, value, plan.layouts);
        if (!implied)
          throw Error(ErrorCode::kUsage,
                      format("\"layouts\" has no member \"{}\", and what a {} cut makes of it does "
                             "not follow from its stage",
                             model.value(value).name, to_string(plan.cut)));
        plan.layouts[at] = *implied;
      }
}

void lay_out_the_rest(const Model& model, const std::vector<bool>& left_out, Plan& plan) {
  std::vector<ops::Layout> given = plan.layouts;
  for (ValueId id = 0; id < model.values(); ++id)
    if (model.value(id).role != ValueRole::kActivation) given[static_cast<size_t>(id)] = {};
  const std::vector<ops::Layout> complete = complete_layouts(model, std::move(given));
  for (size_t value = 0; value < left_out.size(); ++value)
    if (left_out[value]) plan.layouts[value] = complete[value];
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

std::optional<ops::Layout> implied_layout(const Model& model, Cut cut, const Stage& stage,
                                          ValueId value, const std::vector<ops::Layout>& layouts) {
  const Value& made = model.value(value);
  if (stage.parts.empty()) return ops::Layout{};  // validate_decisions() tells it
  if (stage.parts.size() == 1) return ops::Layout::whole(stage.parts[0], made.spec.shape.rank());
  if (cut == Cut::kFree) return {};
  return spread(model, made.producer, stage.parts, layouts);
}

void complete_plan(const Model& model, const LeftOut& left_out, const ObjectiveOf& objective_of,
                   Plan& plan) {
  if (!left_out.any()) return;
  lay_out_activations(model, left_out.layouts, plan);
  if (const auto problems = validate_decisions(model, plan); !problems.empty())
    throw Error(ErrorCode::kUsage, problems.front());
  lay_out_the_rest(model, left_out.layouts, plan);
  if (left_out.routes) plan.routes = connect(model, plan.layouts);
  // Predictions index by routes: those that stand must be right first.
  Plan as_routed = plan;
  as_routed.routes = connect(model, plan.layouts);
  const PlanRequest request = request_of(plan);
  if (left_out.workers) {
    const auto objective = objective_of ? objective_of(plan.schedule) : hold_everything();
    plan.workers = predict(model, as_routed, request, *objective);
  }
  if (left_out.bottleneck) plan.bottleneck = bottleneck_of(model, as_routed, request);
}

}  // namespace kerf::partitioner
