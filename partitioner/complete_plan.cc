#include "partitioner/complete_plan.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "partitioner/sources.h"
#include "partitioner/stage_price.h"
#include "partitioner/step_vector.h"

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
  const ImpliedDivisions implied_of(model, plan);
  for (const Stage& stage : plan.stages)
    for (const NodeId node : stage.nodes) {
      ops::Layout& division = plan.division.nodes[static_cast<size_t>(node)];
      if (!division.shares.empty()) continue;
      const ValueId output = model.node(node).outputs[0];
      if (!left_out[static_cast<size_t>(output)]) {
        division = read_off_layout(model, plan, node);
        continue;
      }
      auto implied = implied_of.of(stage, node, plan.division);
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

// And what they carry to the predictions that stand.
void add_step_routes(const Model& model, bool no_predictions, Plan& plan) {
  Plan more = plan;
  more.routes = step_routes(Sources(model, plan.division), plan.micro_batches,
                            static_cast<int>(plan.routes.size()));
  plan.routes.insert(plan.routes.end(), more.routes.begin(), more.routes.end());
  if (no_predictions) return;
  if (std::ssize(plan.workers) < plan.workers_bound())
    throw Error(ErrorCode::kUsage,
                format("it predicts nothing for worker {}", plan.workers.size()));
  add_traffic(model, more, plan.workers);
}

}  // namespace

bool LeftOut::any() const {
  return routes || step_routes || workers || bottleneck ||
         std::find(layouts.begin(), layouts.end(), true) != layouts.end();
}

PlanRequest request_of_plan(const Plan& plan) {
  PlanRequest request;
  request.batch = plan.batch;
  request.micro_batches = plan.micro_batches;
  request.given_sizes = plan.given_sizes;
  if (!plan.request) return request;
  request.setting = plan.request->setting;
  request.minimise = plan.request->minimise;
  request.pairs = plan.request->pairs;
  request.trains = plan.request->trains;
  request.speed.profile = plan.request->profile;
  request.speed.capacities = plan.request->capacities;
  request.steering = plan.request->steering;
  return request;
}

ImpliedDivisions::ImpliedDivisions(const Model& model, const Plan& plan)
    : model_(model), cut_(plan.cut) {
  PlanRequest request = request_of_plan(plan);
  request.cut = plan.cut;
  request.workers = plan.parts();
  request.placement = plan.binding;
  speeds_ = request.speeds_of_parts();
  if (cut_ != Cut::kFree && cut_ != Cut::kBatch) spread_ = spread(model, request);
}

std::optional<ops::Layout> ImpliedDivisions::of(const Stage& stage, NodeId node,
                                                const Division& division) const {
  if (stage.parts.empty()) return ops::Layout{};  // validate_decisions() tells it
  if (division.replica_parts > 0) return of_replicas(stage, node, division);
  if (stage.parts.size() == 1) return whole_division(model_, node, stage.parts[0]);
  if (cut_ == Cut::kBatch)
    return divide_by_samples(model_.op(node).space(), stage.parts, division.largest, speeds_);
  if (!spread_) return {};
  return spread_(node, stage.parts, division);
}

// Each divides the node as the first does.
std::optional<ops::Layout> ImpliedDivisions::of_replicas(const Stage& stage, NodeId node,
                                                         const Division& division) const {
  std::map<int, Stage> by_replica;
  for (const int part : stage.parts)
    by_replica[division.replica_of(part)].parts.push_back(part % division.replica_parts);
  Division of_one = division;
  of_one.replica_parts = 0;
  for (ops::Layout& each : of_one.nodes)
    std::erase_if(each.shares,
                  [&](const ops::Share& share) { return share.part >= division.replica_parts; });
  std::optional<ops::Layout> all;
  for (const auto& [replica, own] : by_replica) {
    std::optional<ops::Layout> layout = of(own, node, of_one);
    if (!layout) return {};
    for (ops::Share& share : layout->shares) share.part += replica * division.replica_parts;
    if (!all) all = ops::Layout{};
    std::ranges::move(layout->shares, std::back_inserter(all->shares));
  }
  return all;
}

void complete_plan(const Model& model, const LeftOut& left_out, const InFlightOf& in_flight_of,
                   Plan& plan) {
  divide_nodes(model, left_out.layouts, plan);
  if (!left_out.any()) return;
  if (const auto problems = validate_decisions(model, plan); !problems.empty())
    throw Error(ErrorCode::kUsage, problems.front());
  lay_out(model, left_out.layouts, plan);
  const std::vector<Route> routes = all_routes(model, plan);
  if (left_out.routes)
    plan.routes = routes;
  else if (left_out.step_routes)
    add_step_routes(model, left_out.workers, plan);
  // Predictions index by routes: those that stand must be right first.
  Plan as_routed = plan;
  as_routed.routes = routes;
  const PlanRequest request = request_of_plan(plan);
  if (left_out.workers) {
    const auto in_flight = in_flight_of ? in_flight_of(plan.schedule) : hold_everything();
    plan.workers = predict(model, as_routed, request, in_flight ? *in_flight : *hold_everything());
  }
  if (left_out.bottleneck) plan.bottleneck = bottleneck_of(model, as_routed, request);
}

}  // namespace kerf::partitioner
