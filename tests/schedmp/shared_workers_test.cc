// Several stages per worker: the plan of the shortest simulated step, within the caps and by the
// rules.
#include "partitioner/shared_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "partitioner/caps_that_fit.h"
#include "partitioner/tried_plan.h"
#include "schedmp/schedules.h"
#include "schedmp/verify.h"
#include "tests/partitioner/sample_models.h"
#include "tests/schedmp/objective_of.h"

namespace kerf::schedmp {
namespace {

using partitioner::Cut;
using partitioner::Infeasible;
using partitioner::Model;
using partitioner::Plan;
using partitioner::PlanRequest;
using testing::IsEmpty;

std::vector<Model> models() {
  std::vector<Model> all = partitioner::testing::sample_models();
  all.push_back(partitioner::make_zoo_model("mlp", {{40, 300, 20, 70, 90, 10, 50, 60, 5}}));
  return all;
}

class SharedWorkers : public testing::TestWithParam<const char*> {  // schedule
 protected:
  PlanRequest request_of(int workers, int each) const {
    PlanRequest request = partitioner::testing::request_of(Cut::kLayer, workers, 32, 8);
    request.schedule = GetParam();
    request.steering.stages_per_worker = each;
    request.speed.link_seconds = 1e-6;
    return request;
  }
  std::optional<double> step(const Model& model, const Plan& plan,
                             const PlanRequest& request) const {
    return objective_->step_seconds(model, plan, request.speed);
  }
  std::variant<Plan, Infeasible> shared(const Model& model, const PlanRequest& request) const {
    return plan_shared_workers(model, request, *in_flight_, *objective_);
  }
  std::variant<Plan, Infeasible> in_turn(const Model& model, const PlanRequest& request) const {
    return make_plan(model, request, *in_flight_);
  }

  std::unique_ptr<partitioner::InFlight> in_flight_ = in_flight_of(std::string(GetParam()));
  std::unique_ptr<partitioner::Objective> objective_ = objective_of(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Schedules, SharedWorkers, testing::Values("1f1b", "gpipe"),
                         [](const auto& it) { return "By_" + std::string(it.param); });

TEST_P(SharedWorkers, AreNeverWorseThanStagesInTurn) {
  int better = 0;
  for (const Model& model : models())
    for (const int workers : {2, 3})
      for (const bool alike : {true, false}) {
        SCOPED_TRACE(kerf::format("{} over {}", model.name(), workers));
        PlanRequest request = request_of(workers, 2);
        if (!alike)
          for (int worker = 0; worker < workers; ++worker)
            request.speed.capacities.workers.push_back({worker == 1 ? 3.0 : 1.0});
        const Plan plan = std::get<Plan>(shared(model, request));
        EXPECT_THAT(validate(model, plan), IsEmpty());
        for (int worker = 0; worker < workers; ++worker)
          EXPECT_EQ(std::count(plan.binding.begin(), plan.binding.end(), worker), 2);
        EXPECT_LE(plan.bound.value(), plan.bottleneck);
        const double now = step(model, plan, request).value();
        const double turns = step(model, std::get<Plan>(in_turn(model, request)), request).value();
        EXPECT_LE(now, turns);
        if (now < 0.99 * turns) ++better;
        request.steering.stages_per_worker = 1;
        const Plan one = std::get<Plan>(in_turn(model, request));
        // In blocks a gradient leaves a worker after those of the weights of its later stages.
        if (std::ranges::all_of(one.stages, [](const auto& s) { return s.nodes.size() >= 2; })) {
          EXPECT_LE(now, step(model, one, request).value() * 1.1);
        }
      }
  EXPECT_GE(better, 4);
}

// The cap is what the fullest worker takes, less a byte, until nothing fits.
TEST_P(SharedWorkers, KeepWithinTheCap) {
  for (const Model& model : models()) {
    PlanRequest request = request_of(2, 2);
    int fitted = 0;
    for (int64_t most = INT64_MAX; fitted < 4; ++fitted) {
      const auto answer = shared(model, request);
      if (std::holds_alternative<Infeasible>(answer)) {
        EXPECT_TRUE(std::holds_alternative<Infeasible>(in_turn(model, request)));
        break;
      }
      int64_t peak = 0;
      for (const auto& worker : std::get<Plan>(answer).workers)
        peak = std::max(peak, worker.peak_bytes);
      EXPECT_LT(peak, most) << model.name();
      most = peak;
      request.memory = peak - 1;
    }
    EXPECT_GE(fitted, 1);
  }
}

TEST_P(SharedWorkers, AreToldTheLeastUnderWhichAPlanIsFound) {
  int less = 0;
  for (const char* name : {"lenet5", "seq2seq"}) {
    const Model model = partitioner::make_zoo_model(name);
    PlanRequest request = request_of(4, 2);
    request.memory = 1;
    const int64_t told = 1 + std::get<Infeasible>(shared(model, request)).over;
    const int64_t in_turns = 1 + std::get<Infeasible>(in_turn(model, request)).over;
    EXPECT_LE(told, in_turns);
    less += told < in_turns ? 1 : 0;
    request.memory = told;
    EXPECT_TRUE(std::holds_alternative<Plan>(shared(model, request))) << name;
    request.memory = told - told / 16;
    EXPECT_TRUE(std::holds_alternative<Infeasible>(shared(model, request))) << name;
  }
  EXPECT_GT(less, 0);
}

TEST_P(SharedWorkers, AreToldMicroBatchesThatSomePlacesDoWith) {
  const Model model = partitioner::make_zoo_model("mlp");
  PlanRequest request = request_of(3, 2);
  request.batch = 128;
  const Plan free = std::get<Plan>(shared(model, request));
  int fewer = 0;
  for (const int64_t percent : {95, 90, 85}) {
    request.memory = peak_of(free) * percent / 100;
    const auto answer = shared(model, request);
    const auto* told = std::get_if<Infeasible>(&answer);
    if (told == nullptr || told->micro_batches == 0) continue;
    EXPECT_EQ(told->smallest_change, kerf::format("--micro-batches {}", told->micro_batches));
    const auto of_turns = in_turn(model, request);
    const int in_turns = std::get<Infeasible>(of_turns).micro_batches;
    fewer += in_turns == 0 || told->micro_batches < in_turns ? 1 : 0;
    PlanRequest followed = request;
    followed.micro_batches = told->micro_batches;
    EXPECT_TRUE(std::holds_alternative<Plan>(shared(model, followed))) << percent;
  }
  // GPipe keeps all micro-batches, however small.
  EXPECT_EQ(fewer > 0, request.schedule == "1f1b");
}

// Of stages in turn alone it would be less.
TEST_P(SharedWorkers, FitTheLargestBatchInWhateverPlaces) {
  const Model model = partitioner::make_zoo_model("mlp");
  PlanRequest request = request_of(2, 2);
  request.memory = 2 * peak_of(std::get<Plan>(shared(model, request)));
  const auto within = [&](const PlanRequest& each) {
    return shared_workers_within(model, each, *in_flight_, *objective_);
  };
  request.batch = partitioner::largest_batch_within(request, within);
  const int64_t in_turns = largest_batch(model, request, *in_flight_);
  EXPECT_GE(request.batch, in_turns);
  // GPipe keeps all micro-batches, wherever stages are.
  EXPECT_EQ(request.batch > in_turns, request.schedule == "1f1b");
  EXPECT_TRUE(within(request));
  request.batch += request.micro_batches;
  EXPECT_FALSE(within(request)) << request.batch;
}

TEST_P(SharedWorkers, KeepApartWhatIsToBeApart) {
  const Model model = partitioner::make_zoo_model("mlp", {{40, 300, 20, 70, 90, 10, 50, 60, 5}});
  for (const char* other : {"fc2", "fc4", "fc7"}) {
    PlanRequest request = request_of(2, 2);
    request.steering.apart = {{"fc1", other}};
    const Plan plan = std::get<Plan>(shared(model, request));
    const auto worker_of = [&](const std::string& name) {
      return plan.binding[static_cast<size_t>(plan.stage_of(model.find_node(name)))];
    };
    EXPECT_NE(worker_of("fc1"), worker_of(other));
  }
}

}  // namespace
}  // namespace kerf::schedmp
