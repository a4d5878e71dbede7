// The automatic cut is never slower than what else there is: each cut by itself, and divisions into
// layers that others choose, under the same prices and cap.
#include "partitioner/choose_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <regex>
#include <string>

#include "partitioner/cuts/find_hybrids.h"
#include "partitioner/cuts/groups.h"
#include "partitioner/cuts/least_shortage.h"
#include "partitioner/rewrite.h"
#include "partitioner/zoo.h"
#include "schedmp/schedules.h"
#include "schedmp/simulate.h"
#include "tests/schedmp/objective_of.h"

namespace kerf::schedmp {
namespace {

using partitioner::Choice;
using partitioner::Cut;
using partitioner::Infeasible;
using partitioner::Model;
using partitioner::Plan;
using partitioner::PlanRequest;

struct Case {
  const char* model;
  int workers;
  double link_bytes_per_second;
};

class ChoosePlan : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    request_.workers = GetParam().workers;
    request_.batch = 32;
    request_.micro_batches = 4;
    request_.speed.link_bytes_per_second = GetParam().link_bytes_per_second;
  }
  double seconds_of(const Model& model, const Plan& plan) const {
    return objective_->step_seconds(model, plan, request_.speed).value();
  }
  Choice chosen() const {
    return std::get<Choice>(choose_plan(model_, request_, *in_flight_, *objective_));
  }
  static int64_t bytes_of(const Plan& plan) {
    int64_t bytes = 0;
    for (const auto& worker : plan.workers) bytes += worker.bytes_out;
    return bytes;
  }
  // Of whole operators in model order, by the first of each worker's.
  double seconds_of(const std::vector<int>& begins) const {
    partitioner::Assignment assignment;
    assignment.division.largest = request_.largest_micro_batch();
    for (int node = 0; node < model_.nodes(); ++node) {
      const auto stage = static_cast<size_t>(std::upper_bound(begins.begin(), begins.end(), node) -
                                             begins.begin() - 1);
      if (stage == assignment.stages.size())
        assignment.stages.push_back({{}, {static_cast<int>(stage)}});
      assignment.stages[stage].nodes.push_back(node);
      assignment.division.nodes.push_back(
          partitioner::whole_division(model_, node, static_cast<int>(stage)));
    }
    return seconds_of(model_, assigned_plan(model_, request_, *in_flight_, assignment));
  }
  void each_division(const std::function<void(const std::vector<int>&)>& visit,
                     std::vector<int> begins = {0}) const {
    if (static_cast<int>(begins.size()) == request_.workers) return visit(begins);
    for (int next = begins.back() + 1; next < model_.nodes(); ++next) {
      begins.push_back(next);
      each_division(visit, begins);
      begins.pop_back();
    }
  }

  void each_replication(const std::function<void(const partitioner::Groups&)>& visit,
                        partitioner::Groups groups = {}, int workers = 0) const {
    const int layers = static_cast<int>(layers_of(model_).size());
    const int begin = groups.empty() ? 0 : groups.back().end;
    if (begin == layers && workers == request_.workers && groups.size() > 1) visit(groups);
    for (int end = begin + 1; end <= layers; ++end)
      for (int more = 1; workers + more <= request_.workers; ++more) {
        groups.push_back(
            {end, {more, more > 1 ? partitioner::Way::kSample : partitioner::Way::kFeature}});
        each_replication(visit, groups, workers + more);
        groups.pop_back();
      }
  }

  void follow(const Infeasible& told) {
    std::smatch change;
    ASSERT_TRUE(std::regex_match(told.smallest_change, change, std::regex("--([a-z-]+) ([0-9]+)")))
        << told.smallest_change;
    if (change[1] == "memory") request_.memory = std::stoll(change[2]);
    if (change[1] == "workers") request_.workers = std::stoi(change[2]);
    if (change[1] == "micro-batches") request_.micro_batches = std::stoi(change[2]);
  }

  Model model_ = partitioner::make_zoo_model(GetParam().model);
  PlanRequest request_;
  std::unique_ptr<partitioner::InFlight> in_flight_ = in_flight_of(std::string("1f1b"));
  std::unique_ptr<partitioner::Objective> objective_ = objective_of("1f1b");
};

TEST_P(ChoosePlan, IsNoSlowerThanAnyCutByItself) {
  const Choice choice = chosen();
  const double best = seconds_of(choice.model, choice.plan);
  for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kBatch, Cut::kHybrid})
    for (int stages = 2; stages <= (cut == Cut::kHybrid ? request_.workers : 2); ++stages) {
      PlanRequest request = request_;
      request.cut = cut;
      request.stages = stages;
      const Model model = model_for(model_, request);
      if (!fits(model, request, *in_flight_)) continue;
      const Plan plan = std::get<Plan>(make_plan(model, request, *in_flight_));
      EXPECT_LE(best, seconds_of(model, plan)) << to_string(cut) << " in " << stages;
    }
}

TEST_P(ChoosePlan, IsNoSlowerThanAProductsOutputsDividedEvenly) {
  const Choice choice = chosen();
  const double best = seconds_of(choice.model, choice.plan);
  PlanRequest request = request_;
  request.cut = Cut::kFeature;
  request.pairs = false;
  Model model = model_for(model_, request);
  EXPECT_LE(best, seconds_of(model, std::get<Plan>(make_plan(model, request, *in_flight_))));
  request.cut = Cut::kFree;
  request.steering.pattern = "even";
  model = model_for(model_, request);
  EXPECT_LE(best, seconds_of(model, std::get<Plan>(make_plan(model, request, *in_flight_))));
}

// Of a shuffle's units pairs put halves of channels together that are apart again at once.
TEST(ChoosePlanOfShuffles, TakesEvenSharesWherePairsAreSlower) {
  PlanRequest request;
  request.workers = 2;
  request.batch = 30;
  request.micro_batches = 3;
  request.schedule = "gpipe";
  const Model model = partitioner::make_zoo_model("shufflenet");
  const auto answer =
      choose_plan(model, request, *in_flight_of(std::string("gpipe")), *objective_of("gpipe"));
  const Choice& choice = std::get<Choice>(answer);
  std::map<std::string, double> seconds;
  for (const auto& tried : choice.tried)
    if (tried.step_seconds) seconds[tried.how] = *tried.step_seconds;
  EXPECT_LT(seconds.at("feature, without pairs"), seconds.at("feature"));
  EXPECT_FALSE(choice.plan.request->pairs && choice.plan.request->steering.empty());
}

// Hence neither than PipeDream's, Alpa's or an even division into such stages, whatever prices
// they go by.
TEST_P(ChoosePlan, IsNoSlowerThanAnyDivisionIntoLayersWhereTheseAreFew) {
  const Choice choice = chosen();
  const double best = seconds_of(choice.model, choice.plan);
  each_division([&](const std::vector<int>& begins) {
    EXPECT_LE(best, seconds_of(begins)) << testing::PrintToString(begins);
  });
}

// Stages of replicas of any number, the least dearest worker of them: found by pricing them all.
TEST_P(ChoosePlan, IsNoSlowerThanPipeDreamsStagesOfReplicas) {
  request_.cut = Cut::kHybrid;
  double least = 1e300;
  double seconds = 0;
  each_replication([&](const partitioner::Groups& groups) {
    const Model model = rewritten(model_, rewrites_of_groups(model_, request_, groups));
    const Plan plan =
        assigned_plan(model, request_, *in_flight_, assigned_to_groups(model, request_, groups, 0));
    if (plan.bottleneck >= least) return;
    least = plan.bottleneck;
    seconds = seconds_of(model, plan);
  });
  ASSERT_LT(least, 1e300);
  const Choice choice = chosen();
  EXPECT_LE(seconds_of(choice.model, choice.plan), seconds);
}

// Whatever is chosen, its plan says what its bottleneck is above, and why.
TEST_P(ChoosePlan, EveryCandidateHasABound) {
  const auto expect_bound = [](const Plan& plan, const std::string& how) {
    EXPECT_GT(plan.bound.value_or(0), 0) << how;
    EXPECT_LE(plan.bound.value_or(0), plan.bottleneck) << how;
    EXPECT_THAT(plan.witness.text, testing::Not(testing::IsEmpty())) << how;
  };
  request_.cut = Cut::kHybrid;
  for (const auto& found : find_hybrids(model_, request_, *in_flight_, {})) {
    ASSERT_TRUE(found.assignment) << found.how;
    expect_bound(assigned_plan(found.model, request_, *in_flight_, *found.assignment), found.how);
  }
  const Plan free = chosen().plan;
  expect_bound(free, "chosen");
  int64_t least = 0;
  for (const auto& worker : free.workers) least = std::max(least, worker.peak_bytes);
  request_.memory = least;
  expect_bound(chosen().plan, "within a cap");
}

// Of all whose step takes at most so much longer than the least: what is told of the others is that
// they take more, or send more.
TEST_P(ChoosePlan, TakesTheFewestBytesWithinTheSlack) {
  double least = seconds_of(chosen().model, chosen().plan);
  int64_t before = std::numeric_limits<int64_t>::max();
  for (const double slack : {0.0, 0.05, 0.5, 4.0}) {
    request_.slack = slack;
    const Choice choice = chosen();
    EXPECT_LE(seconds_of(choice.model, choice.plan), least * (1 + slack)) << slack;
    int64_t fewest = std::numeric_limits<int64_t>::max();
    for (const auto& tried : choice.tried)
      if (tried.step_seconds && *tried.step_seconds <= least * (1 + slack))
        fewest = std::min(fewest, tried.bytes);
    EXPECT_EQ(bytes_of(choice.plan), fewest) << slack;
    EXPECT_LE(fewest, before) << slack;
    before = fewest;
    EXPECT_TRUE(choice.plan.request->steering.automatic) << "it is of the choice, not of the cut";
    EXPECT_EQ(choice.plan.request->steering.slack, slack);
  }
}

// What was not simulated could not have been chosen.
TEST_P(ChoosePlan, LeavesOnlyPlansThatTakeLonger) {
  std::map<std::string, double> all;
  request_.slack = 100;
  for (const auto& tried : chosen().tried)
    if (tried.step_seconds) all[tried.how] = *tried.step_seconds;
  request_.slack = 0;
  const Choice choice = chosen();
  const double least = seconds_of(choice.model, choice.plan);
  for (const auto& tried : choice.tried)
    if (tried.why_not.starts_with("its step takes ")) {
      ASSERT_TRUE(all.contains(tried.how)) << tried.how;
      const double bound = std::stod(tried.why_not.substr(std::string("its step takes ").size()));
      EXPECT_GE(bound, least * 0.99) << tried.how;  // three digits are told
      EXPECT_LE(bound, all[tried.how] * 1.01) << tried.how;
    }
}

TEST_P(ChoosePlan, RefusesASlackThatIsNone) {
  for (const double slack : {-0.1, 101.0, std::numeric_limits<double>::quiet_NaN()}) {
    request_.slack = slack;
    EXPECT_THROW((void)chosen(), Error) << slack;
  }
}

TEST_P(ChoosePlan, GivesTheSamePlanAgain) {
  const Choice once = chosen();
  const Choice again = chosen();
  EXPECT_EQ(write_plan(once.model, once.plan), write_plan(again.model, again.plan));
}

TEST_P(ChoosePlan, TellsOfEachCandidateWhatItTakesAndTakesTheLeast) {
  const Choice choice = chosen();
  double least = 1e300;
  for (const auto& tried : choice.tried) {
    EXPECT_EQ(tried.step_seconds.has_value(), tried.why_not.empty()) << tried.how;
    EXPECT_THAT(tried.why_not, testing::Not(testing::HasSubstr("schedule cannot run")))
        << tried.how;
    least = std::min(least, tried.step_seconds.value_or(least));
  }
  EXPECT_DOUBLE_EQ(least, seconds_of(choice.model, choice.plan));
}

TEST_P(ChoosePlan, TriesEveryCutAndGroupsOfAnySize) {
  std::vector<std::string> expected{"feature", "feature, without pairs", "batch",
                                    "layer",   "layer, by step",         "free, evenly"};
  for (int stages = 2; stages <= request_.workers; ++stages)
    expected.push_back(format("hybrid in {} stages", stages));
  if (std::string(GetParam().model) == "lenet5") expected.emplace_back("free, by space");
  std::vector<std::string> tried;
  for (const auto& each : chosen().tried) tried.push_back(each.how);
  EXPECT_THAT(tried, testing::IsSupersetOf(expected));
  EXPECT_THAT(tried, testing::Contains(testing::StartsWith("hybrid, ")));
}

TEST_P(ChoosePlan, KeepsWithinTheCapOrSaysWhatWouldDo) {
  int64_t least = 0;
  for (const auto& worker : chosen().plan.workers) least = std::max(least, worker.peak_bytes);
  request_.memory = least - 1;
  auto answer = choose_plan(model_, request_, *in_flight_, *objective_);
  if (const auto* choice = std::get_if<Choice>(&answer)) {
    for (const auto& worker : choice->plan.workers) EXPECT_LT(worker.peak_bytes, least);
  } else {
    follow(std::get<Infeasible>(answer));
    EXPECT_TRUE(
        std::holds_alternative<Choice>(choose_plan(model_, request_, *in_flight_, *objective_)))
        << std::get<Infeasible>(answer).text();
  }
}

// Whatever its own name is: of all cuts that of the least memory, to the byte.
TEST_P(ChoosePlan, WhatWouldFitIsTheLeastOfAllCuts) {
  request_.memory = 1;
  const auto answer = choose_plan(model_, request_, *in_flight_, *objective_);
  ASSERT_TRUE(std::holds_alternative<Infeasible>(answer));
  const int64_t least = std::get<Infeasible>(answer).cap + std::get<Infeasible>(answer).over;
  const auto fits_in = [&](int64_t bytes) {
    request_.memory = bytes;
    return std::holds_alternative<Choice>(choose_plan(model_, request_, *in_flight_, *objective_));
  };
  EXPECT_TRUE(fits_in(least));
  EXPECT_FALSE(fits_in(least - 1));
}

// Rows of the table and plans that are none are one list, whatever their order in it.
TEST(LeastShortage, IsOfTheFewestBytesAndSaysWhatWouldDo) {
  const Model model = partitioner::make_zoo_model("lenet5");
  const auto in_flight = in_flight_of(std::string("1f1b"));
  PlanRequest request;
  request.workers = 3;
  const Plan plan = std::get<Plan>(make_plan(model, request, *in_flight));
  request.memory = 1;
  const Infeasible of_rows = least_shortage(model, request, *in_flight, {}).value();
  const int64_t least = of_rows.cap + of_rows.over;
  const auto with_peak = [&](int64_t bytes) {
    Plan other = plan;
    for (auto& worker : other.workers) worker.peak_bytes = bytes - worker.worker;
    return other;
  };
  const Plan near = with_peak(least - 2);
  const Plan nearer = with_peak(least - 7);
  const Plan far = with_peak(least + 1);
  for (const auto& others :
       {std::vector{&far, &near, &nearer}, std::vector{&nearer, &near, &far}}) {
    const Infeasible answer = least_shortage(model, request, *in_flight, others).value();
    EXPECT_EQ(answer.over, least - 7 - 1);
    EXPECT_EQ(answer.smallest_change, format("--memory {}", least - 7));
  }
  const Infeasible answer = least_shortage(model, request, *in_flight, {&far}).value();
  EXPECT_EQ(answer.over, of_rows.over);
  EXPECT_EQ(answer.smallest_change, of_rows.smallest_change);
}

INSTANTIATE_TEST_SUITE_P(Models, ChoosePlan,
                         testing::Values(Case{"mlp", 3, 8e9}, Case{"mlp", 2, 1e6},
                                         Case{"lenet5", 3, 8e9}, Case{"lenet5", 2, 1e7}));

}  // namespace
}  // namespace kerf::schedmp
