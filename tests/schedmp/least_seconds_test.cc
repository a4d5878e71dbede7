// No step takes less than its bound says, and of a pipeline of alike stages none more.
#include "partitioner/cuts/least_seconds.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "partitioner/connected_plan.h"
#include "partitioner/zoo.h"
#include "schedmp/schedules.h"
#include "schedmp/simulate.h"
#include "tests/schedmp/objective_of.h"

namespace kerf::schedmp {
namespace {

using partitioner::Cut;
using partitioner::Model;
using partitioner::Plan;
using partitioner::PlanRequest;

// GPipe, but for gradients of weights, which come last of all.
Schedule gpipe_split(const Model& model, const Plan& plan) {
  Schedule schedule = make_schedule("gpipe", model, plan);
  schedule.name = "gpipe, split";
  for (std::vector<Action>& row : schedule.rows) {
    std::vector<Action> weights;
    for (Action& action : row)
      if (action.kind == ActionKind::kBackward) {
        weights.push_back({action.stage, ActionKind::kWeightGradient, action.micro_batch});
        action.kind = ActionKind::kInputGradient;
      }
    const auto update =
        std::ranges::find_if(row, [](const Action& action) { return action.micro_batch < 0; });
    row.insert(update, weights.begin(), weights.end());
  }
  return schedule;
}

// Of each cut of a model, where it has one within memory.
void expect_bounds(const Model& whole, PlanRequest request) {
  const auto in_flight = in_flight_of(request.schedule);
  request.trains = in_flight->trains();
  for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kBatch, Cut::kHybrid}) {
    request.cut = cut;
    const Model model = model_for(whole, request);
    if (!fits(model, request, *in_flight)) continue;
    const Plan plan = std::get<Plan>(make_plan(model, request, *in_flight));
    const partitioner::Sources sources(model, plan.division, stages_of_parts(plan));
    const partitioner::Sums sums(sources);
    const std::string how =
        format("{}, {} over {}, {}, {}", model.name(), to_string(cut), request.workers,
               request.schedule, request.speed.capacities.empty() ? "equal" : "unequal");
    const auto expect_bound = [&](bool splits, const partitioner::Objective& objective) {
      const double bound = least_seconds(sums, plan, request, splits);
      EXPECT_LE(bound, objective.step_seconds(model, plan, request.speed).value()) << how;
      EXPECT_GT(bound, 0) << how;
    };
    expect_bound(in_flight->splits(), *objective_of(request.schedule));
    if (request.trains) expect_bound(true, *simulated_step(gpipe_split));
  }
}

TEST(LeastSeconds, NoStepOfAFewOperatorsIsBelowIt) {
  for (const auto& [name, workers, link] :
       {std::tuple{"mlp", 3, 8e9}, {"mlp", 2, 1e6}, {"lenet5", 3, 8e9}, {"lenet5", 2, 1e7}})
    for (const std::string schedule : {"1f1b", "gpipe", "forward-only"})
      for (const bool unequal : {false, true}) {
        PlanRequest request;
        request.workers = workers;
        request.batch = 32;
        request.micro_batches = 4;
        request.schedule = schedule;
        request.speed.link_bytes_per_second = link;
        if (unequal)
          for (int worker = 0; worker < workers; ++worker)
            request.speed.capacities.workers.push_back({.speed = 1.0 + 3 * worker});
        expect_bounds(partitioner::make_zoo_model(name), request);
      }
}

// Stages of several operators with weights, branches, and batch normalisations that wait for sums.
TEST(LeastSeconds, NoStepOfTheZooIsBelowIt) {
  for (const char* name : {"alexnet", "gpt", "squeezenet", "resnet18"})
    for (const std::string schedule : {"1f1b", "gpipe"}) {
      PlanRequest request;
      request.workers = 3;
      request.batch = 30;
      request.micro_batches = 4;
      request.schedule = schedule;
      expect_bounds(partitioner::make_zoo_model(name), request);
    }
}

// Stages of two operators that take a second each way each, and their weights a second more: before
// the last one's first pass all others make theirs, and after its last gradients of inputs all
// others theirs. No step of one of these schedules takes longer.
//
//   worker 0  0F0 ......................... 0B1
//   worker 1      1F0 ................. 1B1
//   worker 2          2F0 2F1 2B0 2B1
TEST(LeastSeconds, IsTheFillingAllThatTheLastStageComputesAndTheDraining) {
  for (int stages = 2; stages <= 5; ++stages)
    for (const std::string schedule : {"1f1b", "gpipe", "forward-only"}) {
      std::vector<int64_t> sizes(static_cast<size_t>(stages), 8);
      sizes.push_back(3);
      const Model model = partitioner::make_zoo_model("mlp", {sizes});
      PlanRequest request;
      request.workers = stages;
      request.batch = 30;
      request.micro_batches = 6;
      request.schedule = schedule;
      request.speed = {.flops_per_second = 1e30,
                       .bytes_per_second = 1e30,
                       .launch_seconds = 1,
                       .link_bytes_per_second = 1e30,
                       .link_seconds = 0};
      for (int worker = 0; worker < stages; ++worker)
        request.speed.capacities.workers.push_back({.speed = 2});
      const auto in_flight = in_flight_of(schedule);
      request.trains = in_flight->trains();
      const Plan plan = std::get<Plan>(make_plan(model, request, *in_flight));
      const partitioner::Sources sources(model, plan.division, stages_of_parts(plan));
      request.minimise = partitioner::Minimise::kForwardFlops;  // it is of time all the same
      const double filling = 2 * (stages - 1);
      const double seconds = request.trains ? 2 * filling + 5 * 6 - 1 : filling + 2 * 6;
      const partitioner::Sums sums(sources);
      const double bound = least_seconds(sums, plan, request, false);
      EXPECT_NEAR(bound, seconds / 2, 1e-6) << stages << ", " << schedule;
      EXPECT_NEAR(*objective_of(schedule)->step_seconds(model, plan, request.speed), bound, 1e-6)
          << stages << ", " << schedule;
      // Weights' gradients may fill the draining, if that is long enough.
      const double split =
          request.trains ? std::max(filling + 5 * 6, 2 * filling + 4 * 6) : seconds;
      EXPECT_NEAR(least_seconds(sums, plan, request, true), split / 2, 1e-6) << stages;
    }
}

}  // namespace
}  // namespace kerf::schedmp
