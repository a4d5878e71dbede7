#include "tests/partitioner/zoo_divisions.h"

#include <algorithm>
#include <random>

#include "partitioner/at.h"
#include "partitioner/choose_plan.h"
#include "partitioner/cuts/features.h"
#include "partitioner/cuts/groups.h"
#include "partitioner/cuts/spread.h"
#include "partitioner/rewrite.h"
#include "runtime/json.h"
#include "schedmp/schedules.h"
#include "schedmp/simulate.h"

namespace kerf::partitioner {
namespace {

using Random = std::mt19937;

Divided by_cut(const Model& model, Cut cut, PlanRequest request) {
  request.cut = cut;
  Model made = model_for(model, request);
  Plan plan = std::get<Plan>(make_plan(made, request, *hold_everything()));
  return {std::move(made), std::move(plan)};
}

Divided in_groups(const Model& model, PlanRequest request) {
  request.cut = Cut::kHybrid;
  const int layers = static_cast<int>(layers_of(model).size());
  const int of_first = (request.workers + 1) / 2;
  const Groups groups{{layers / 2, {of_first, of_first > 1 ? Way::kSample : Way::kFeature}},
                      {layers, {request.workers - of_first, Way::kFeature}}};
  Model made = rewritten(model, rewrites_of_groups(model, request, groups));
  const Assignment assignment = assigned_to_groups(made, request, groups, 0);
  Plan plan = assigned_plan(made, request, *hold_everything(), assignment);
  return {std::move(made), std::move(plan)};
}

Divided in_turn(const Model& model, PlanRequest request) {
  request.steering.pattern = "block-cyclic:1";
  return by_cut(model, Cut::kFree, request);
}

// To each part one unit, while there are any, and whatever else there is.
std::vector<ops::IndexSet> dealt(int64_t units, size_t parts, Random& random) {
  std::vector<std::vector<int64_t>> hands(parts);
  std::vector<int64_t> deck;
  for (int64_t unit = 0; unit < units; ++unit) deck.push_back(unit);
  std::shuffle(deck.begin(), deck.end(), random);
  for (size_t i = 0; i < deck.size(); ++i)
    hands[i < parts ? i : random() % parts].push_back(deck[i]);
  std::vector<ops::IndexSet> sets;
  for (const auto& hand : hands) sets.push_back(ops::IndexSet::of(hand));
  return sets;
}

// As a file of shares has it: worker -> axis -> indices.
Json shares_of(const ops::Layout& layout, const ops::IterationSpace& space) {
  Json shares = Json::object();
  for (const ops::Share& share : layout.shares) {
    Json& sets = shares[std::to_string(share.part)];
    for (size_t axis = 0; axis < space.axes.size(); ++axis)
      if (const ops::IndexSet& set = share.box.axes[axis]; !set.is_all())
        sets[space.axes[axis].name] = to_string(set);
  }
  return shares;
}

// Nodes of one unit are left to the cut.
Divided scattered(const Model& model, PlanRequest request) {
  Random random(static_cast<unsigned>(request.workers));
  Json shares = Json::object();
  for (NodeId id = 0; id < model.nodes(); ++id) {
    const Node& node = model.node(id);
    const ops::IterationSpace space = space_with_rewrites(node);
    if (!is_one_to_all(model, id, space)) continue;
    if (feature_units(space, request.workers) < 2) continue;
    const ops::Layout layout =
        divide_features(space, all_parts(request), [&](int64_t units, std::span<const int> parts) {
          return dealt(units, parts.size(), random);
        });
    shares[node.name] = shares_of(layout, space);
  }
  request.shares = json_text({{"kerf_shares", 1}, {"shares", shares}});
  request.shares_origin = "scattered.json";
  return by_cut(model, Cut::kFree, request);
}

Divided as_chosen(const Model& model, const PlanRequest& request) {
  const auto in_flight = schedmp::in_flight_of(request.schedule);
  const auto objective = schedmp::simulated_step([&](const Model& made, const Plan& plan) {
    return schedmp::make_schedule(request.schedule, made, plan);
  });
  auto choice = std::get<Choice>(choose_plan(model, request, *in_flight, *objective));
  return {std::move(choice.model), std::move(choice.plan)};
}

}  // namespace

bool Divided::by_layer() const {
  return model.original() == nullptr &&
         std::all_of(plan.stages.begin(), plan.stages.end(),
                     [](const Stage& stage) { return stage.parts.size() == 1; });
}

Divided divided(const Model& model, const std::string& way, const PlanRequest& request) {
  if (way == "groups") return in_groups(model, request);
  if (way == "block-cyclic") return in_turn(model, request);
  if (way == "scattered") return scattered(model, request);
  if (way == "auto") return as_chosen(model, request);
  return by_cut(model, way == "space" ? Cut::kFree : parse_cut(way), request);
}

}  // namespace kerf::partitioner
