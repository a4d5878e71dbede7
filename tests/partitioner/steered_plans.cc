#include "tests/partitioner/steered_plans.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "partitioner/connected_plan.h"
#include "partitioner/stage_price.h"
#include "tests/partitioner/every_division.h"

namespace kerf::partitioner::testing {

Capacities with_speeds(const std::vector<double>& speeds) {
  Capacities capacities;
  for (const double speed : speeds) capacities.workers.push_back({speed});
  return capacities;
}

PlanRequest free_request(int workers) {
  PlanRequest request = request_of(Cut::kFree, workers);
  request.shares.clear();
  return request;
}

Plan made(const Model& model, const PlanRequest& request) {
  const Model rewritten = model_for(model, request);
  Plan plan = plan_of(rewritten, request);
  EXPECT_THAT(validate(rewritten, plan), ::testing::IsEmpty());
  return plan;
}

namespace {

// The least bottleneck of all divisions into a stage for each worker, in every order of the
// workers, of those that are accepted; each is priced as a plan.
double least_bottleneck(const Model& model, const PlanRequest& request, const Accept& accept) {
  constexpr size_t kMost = 20'000;
  const auto divisions = every_division(partings_of(model), request.workers, kMost);
  EXPECT_LT(divisions.size(), kMost);
  double least = 1e300;
  std::vector<int> order(static_cast<size_t>(request.workers));
  std::iota(order.begin(), order.end(), 0);
  do {
    for (const std::vector<int>& stage_of : divisions) {
      std::vector<int> worker_of;
      for (const int stage : stage_of) worker_of.push_back(order[static_cast<size_t>(stage)]);
      if (!accept(worker_of)) continue;
      Assignment assignment;
      assignment.division.largest = request.largest_micro_batch();
      for (const std::vector<int>& nodes : nodes_of_stages(stage_of, request.workers))
        assignment.stages.push_back({nodes, {static_cast<int>(assignment.stages.size())}});
      for (NodeId node = 0; node < model.nodes(); ++node)
        assignment.division.nodes.push_back(
            whole_division(model, node, stage_of[static_cast<size_t>(node)]));
      assignment.binding = order;
      least = std::min(least,
                       bottleneck_of(model, connected_plan(model, request, assignment), request));
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

}  // namespace

void expect_least(const Model& model, const PlanRequest& request, const Accept& accept) {
  const Plan plan = made(model, request);
  const double least = least_bottleneck(model, request, accept);
  EXPECT_NEAR(plan.bottleneck, least, 1e-9 * least) << model.name();
  if (request.steering.places.empty())
    EXPECT_NEAR(plan.bound.value(), least, 1e-9 * least) << model.name();
  else
    EXPECT_LE(plan.bound.value(), least * (1 + 1e-9)) << model.name();
}

}  // namespace kerf::partitioner::testing
