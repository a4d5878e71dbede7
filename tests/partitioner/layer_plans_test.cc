// Layer cuts of random models beside every division that there is, each connected, predicted and
// priced as a plan of its own: none is better than the bound says, none that is returned is above
// its cap or better than the best, and few are worse.
//
// KERF_SEEDS=FIRST-LAST in the environment chooses other seeds.
#include <gmock/gmock.h>

#include "partitioner/complete_plan.h"
#include "partitioner/cut.h"
#include "partitioner/least_memory.h"
#include "partitioner/stage_price.h"
#include "schedmp/schedules.h"
#include "tests/partitioner/every_division.h"
#include "tests/partitioner/random_models.h"
#include "tests/support/errors.h"
#include "tests/support/seeds.h"

namespace kerf::partitioner {
namespace {

using testing::Tallies;
using testing::Tally;

constexpr size_t kFewDivisions = 120;
constexpr int64_t kNoCap = std::numeric_limits<int64_t>::max();

struct Choice {
  std::vector<int> stage_of;
  double bottleneck = 0;
  int64_t peak = 0;  // of the fullest worker
};

int64_t largest_peak(const std::vector<WorkerPrediction>& workers) {
  int64_t most = 0;
  for (const WorkerPrediction& worker : workers) most = std::max(most, worker.peak_bytes);
  return most;
}

class EveryPlan {
 public:
  EveryPlan(const Model& model, const PlanRequest& request,
            const std::vector<std::vector<int>>& divisions)
      : model_(model), request_(request), in_flight_(schedmp::in_flight_of(request.schedule)) {
    for (const auto& stage_of : divisions) all_.push_back(choice(stage_of));
  }

  const std::vector<Choice>& all() const { return all_; }
  const Choice* find(const Plan& plan) const {
    std::vector<int> stage_of;
    for (NodeId node = 0; node < model_.nodes(); ++node) stage_of.push_back(plan.stage_of(node));
    for (const Choice& each : all_)
      if (each.stage_of == stage_of) return &each;
    return nullptr;
  }
  double best(int64_t cap) const {
    double best = std::numeric_limits<double>::infinity();
    for (const Choice& each : all_)
      if (each.peak <= cap) best = std::min(best, each.bottleneck);
    return best;
  }
  int64_t least_peak() const {
    int64_t least = kNoCap;
    for (const Choice& each : all_) least = std::min(least, each.peak);
    return least;
  }
  std::variant<Plan, Infeasible> planned(std::optional<int64_t> memory) const {
    PlanRequest request = request_;
    request.memory = memory;
    return make_plan(model_, request, *in_flight_);
  }

 private:
  // Each stage as it takes least: leaving first what leaves it, or interleaved.
  Choice choice(const std::vector<int>& stage_of) const {
    Plan plan;
    plan.model = model_.name();
    plan.fingerprint = model_.fingerprint();
    plan.batch = request_.batch;
    plan.micro_batches = request_.micro_batches;
    plan.schedule = request_.schedule;
    plan.division.largest = request_.largest_micro_batch();
    plan.division.nodes.resize(static_cast<size_t>(model_.nodes()));
    plan.layouts.resize(static_cast<size_t>(model_.values()));
    for (const std::vector<int>& nodes : testing::nodes_of_stages(stage_of, request_.workers)) {
      const int part = plan.parts();
      plan.stages.push_back({nodes, {part}});
      plan.binding.push_back(part);
    }
    const std::vector<bool> every(plan.layouts.size(), true);
    complete_plan(model_, {.layouts = every, .routes = true}, {}, plan);
    auto workers = predict(model_, plan, request_, *in_flight_);
    for (Stage& stage : plan.stages) stage.interleaved = true;
    const auto others = predict(model_, plan, request_, *in_flight_);
    for (size_t w = 0; w < workers.size(); ++w)
      workers[w].peak_bytes = std::min(workers[w].peak_bytes, others[w].peak_bytes);
    return {stage_of, bottleneck_of(model_, plan, request_), largest_peak(workers)};
  }

  const Model& model_;
  PlanRequest request_;
  std::unique_ptr<InFlight> in_flight_;
  std::vector<Choice> all_;
};

void look_at_plan(const EveryPlan& every, const Plan& plan, int64_t cap, Tally& tally) {
  const Choice* same = every.find(plan);
  ASSERT_NE(same, nullptr) << "not a legal division";
  const int64_t peak = largest_peak(plan.workers);
  EXPECT_LE(peak, cap);
  EXPECT_GE(peak, same->peak);
  EXPECT_NEAR(plan.bottleneck, same->bottleneck, 1e-9 * same->bottleneck);
  EXPECT_GT(plan.bound, 0);
  const double best = every.best(cap);
  EXPECT_LE(plan.bound, best * (1 + 1e-9));
  EXPECT_GE(plan.bottleneck, best * (1 - 1e-9));
  tally.add_plan(plan.bottleneck, best);
}

void look_at(const Model& model, const PlanRequest& request,
             const std::vector<std::vector<int>>& divisions, Tallies& tallies) {
  const EveryPlan every(model, request, divisions);
  if (every.all().empty()) {
    const auto error = tests::error_of([&] { (void)every.planned({}); });
    ASSERT_TRUE(error) << "no division, but a plan";
    EXPECT_EQ(error->code(), ErrorCode::kInfeasible);
    return;
  }
  const Plan free = std::get<Plan>(every.planned({}));
  look_at_plan(every, free, kNoCap, tallies.free);
  const int64_t least = every.least_peak();
  EXPECT_LE(least_memory(model, request), request.workers * least);
  const int64_t most = largest_peak(free.workers);
  for (const int64_t cap : {least - 1, least, (3 * least + most) / 4, (least + most) / 2, most}) {
    const auto answer = every.planned(cap);
    if (const auto* plan = std::get_if<Plan>(&answer)) {
      look_at_plan(every, *plan, cap, tallies.capped);
      EXPECT_TRUE(is_exact(plan->bottleneck, plan->bound.value()));
      continue;
    }
    const auto& no = std::get<Infeasible>(answer);
    EXPECT_EQ(no.cap, cap);
    EXPECT_GE(cap + no.over, least) << "nothing fits into what it advises";
    tallies.capped.add_refusal(static_cast<double>(cap), static_cast<double>(cap + no.over),
                               static_cast<double>(least));
  }
}

class LayerPlans : public ::testing::TestWithParam<int> {};

// Models with few divisions, of random operators.
void look_at_some(Random& random, Tallies& tallies) {
  for (const double link_seconds : {20e-6, 1e-6})
    for (const int workers : {2, 3}) {
      PlanRequest request;
      request.schedule = link_seconds < 20e-6 && workers == 2 ? "forward-only" : "1f1b";
      request.trains = schedmp::in_flight_of(request.schedule)->trains();
      request.workers = workers;
      request.batch = 12;
      request.micro_batches = 3;
      request.speed.link_seconds = link_seconds;
      for (;;) {
        const Model model =
            draw(random, 2) == 0 ? random_model(random) : random_net_of_onnx(Family::kAny, random);
        const auto divisions =
            testing::every_division(testing::partings_of(model), workers, kFewDivisions);
        if (divisions.size() == kFewDivisions) continue;
        look_at(model, request, divisions, tallies);
        break;
      }
    }
}

TEST_P(LayerPlans, HoldBesideEveryDivision) {
  Random random(static_cast<Random::result_type>(GetParam()));
  Tallies tallies;
  look_at_some(random, tallies);
  EXPECT_GT(tallies.free.plans, 0);
  EXPECT_GT(tallies.capped.plans, 0);
  EXPECT_GT(tallies.capped.refusals, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, LayerPlans, tests::seeds(1, 6));

// Under a cap only the finished plan shows what it takes, so that all few of them are looked at.
TEST(LayerPlans, AreTheBest) {
  Random random(1);
  Tallies tallies;
  for (int round = 0; round < 5; ++round) look_at_some(random, tallies);
  EXPECT_EQ(tallies.free.best, tallies.free.plans) << "their ideals are few, so that it is proved";
  EXPECT_GE(tallies.capped.plans, 50);
  EXPECT_EQ(tallies.capped.best, tallies.capped.plans) << tallies.capped.worst;
  EXPECT_GE(tallies.capped.refusals, 10);
  EXPECT_EQ(tallies.capped.mistaken, 0);
  EXPECT_EQ(tallies.capped.most, 1) << "what is advised is the least that something fits into";
}

}  // namespace
}  // namespace kerf::partitioner
