// The simulated step against formulas, against a plain fixpoint of the same rows, and against what
// the plan predicts of each worker.
#include "schedmp/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "partitioner/cut.h"
#include "partitioner/zoo.h"
#include "schedmp/interpreter.h"
#include "schedmp/schedules.h"
#include "schedmp/steps.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {
namespace {

using partitioner::Cut;
using partitioner::DeviceSpeed;
using partitioner::Model;
using partitioner::Plan;
using partitioner::PlanRequest;

constexpr double kNoLimit = 1e30;
// Every operator takes a second each way, and nothing else any time.
const DeviceSpeed kSecondEach{kNoLimit, kNoLimit, 1, kNoLimit, 0};

PlanRequest request_of(Cut cut, int workers, int micro_batches, const DeviceSpeed& speed) {
  PlanRequest request;
  request.cut = cut;
  request.workers = workers;
  request.batch = 30;
  request.micro_batches = micro_batches;
  request.speed = speed;
  return request;
}

Plan plan_of(const Model& model, const PlanRequest& request) {
  return std::get<Plan>(partitioner::make_plan(model, request, *partitioner::hold_everything()));
}

std::optional<Timeline> simulated(const Model& model, const Plan& plan, const Schedule& schedule,
                                  const DeviceSpeed& speed) {
  return simulate(model, plan, partitioner::lower(model, plan, lowering_for(schedule)), schedule,
                  speed);
}

// Of fully connected layers with ReLU: two operators in each of the stages, the last with the loss.
Model chain_model(int stages) {
  std::vector<int64_t> sizes(static_cast<size_t>(stages), 8);
  sizes.push_back(3);
  return partitioner::make_zoo_model("mlp", {sizes});
}

// Forward takes 2 s a stage, the gradients of inputs 2 s, those of weights 1 s; the first stage has
// no use for one second of these. The last stage begins its backwards after M + S - 1 forwards,
// the first gets the last gradient S - 1 stages later.
TEST(Simulate, GPipeOfEqualStagesTakesWhatTheFormulaSays) {
  for (int stages = 2; stages <= 5; ++stages)
    for (int m = 1; m <= 7; ++m) {
      const Model model = chain_model(stages);
      const Plan plan = plan_of(model, request_of(Cut::kLayer, stages, m, kSecondEach));
      const auto timeline = simulated(model, plan, gpipe(pipeline_of(model, plan), m), kSecondEach);
      ASSERT_TRUE(timeline);
      const double forward = 2 * (m + stages - 1);
      const double first_ends = 2 * (stages - 1) + 3 * (m - 1) + 2;
      const double second_ends = 2 * (stages - 2) + 3 * m;
      EXPECT_DOUBLE_EQ(timeline->step_seconds, forward + std::max(first_ends, second_ends));
      EXPECT_DOUBLE_EQ(timeline->busy[0], 4 * m);
      EXPECT_DOUBLE_EQ(timeline->idle(stages - 1), 1 - 5 * m / timeline->step_seconds);
    }
}

// One worker waits for nobody: what it is idle of the step is rounding, and never below nothing.
TEST(Simulate, NobodyIsIdleForLessThanNothing) {
  const Model model = partitioner::make_zoo_model("lenet5", {});
  for (const char* name : {"1f1b", "zbv", "interleaved", "zb-h1"})
    for (const int micro_batches : {3, 7, 8}) {
      PlanRequest request = request_of(Cut::kLayer, shape_of(name).chunks, micro_batches, {});
      request.placement.assign(static_cast<size_t>(request.workers), 0);
      const Plan plan = plan_of(model, request);
      const auto timeline = simulated(
          model, plan, make_schedule(name, pipeline_of(model, plan), micro_batches), request.speed);
      ASSERT_TRUE(timeline);
      EXPECT_GE(timeline->idle(0), 0) << name << micro_batches;
      EXPECT_NEAR(timeline->idle(0), 0, 1e-9) << name << micro_batches;
    }
}

// Of each stage of a chain that is cut by layers, for a micro-batch of so many rows.
struct StageCost {
  double forward = 0, input_gradient = 0, weight_gradient = 0;
};
StageCost cost_of(const Model& model, const Plan& plan, int stage, int64_t samples,
                  const DeviceSpeed& speed) {
  StageCost sum;
  for (const auto& c : computations(model, plan.division)) {
    if (plan.stage_of(c.node) != stage) continue;
    const auto cost =
        node_cost(model, c.node, c.iterations, plan.largest_micro_batch(), samples, speed);
    sum.forward += cost.forward_seconds;
    sum.input_gradient += cost.input_gradient_seconds;
    sum.weight_gradient += cost.weight_gradient_seconds;
  }
  return sum;
}

// When each B of a chain ends: the ends of all actions are raised until none is too early. What a
// stage sends crosses one link after the other of its messages.
class Fixpoint {
 public:
  Fixpoint(const Model& model, const Plan& plan, const Schedule& schedule, const DeviceSpeed& speed)
      : model_(model), plan_(plan), speed_(speed) {
    for (bool raised = true; raised;) {
      const auto before = end_;
      for (const auto& row : schedule.rows) run(row, schedule.stages());
      raised = end_ != before;
    }
  }
  double end(const Action& action) const { return end_.at({action.stage, key(action)}); }

 private:
  using Key = std::pair<int, int>;  // stage; twice the micro-batch, 1 more for B
  static int key(const Action& a) {
    return 2 * a.micro_batch + (a.kind == ActionKind::kBackward ? 1 : 0);
  }
  double transfer(int stage, bool gradient, int64_t samples) const {
    for (const auto& route : plan_.routes)
      if (!is_of_step(model_, route) && route.gradient == gradient &&
          plan_.stages[static_cast<size_t>(stage)].parts[0] == route.from)
        return static_cast<double>(message_bytes(model_, route, samples)) /
               speed_.link_bytes_per_second;
    return 0;
  }
  // What a neighbour sends after all it sent before.
  double arrival(int from, const Action& action, const std::vector<int64_t>& sizes) const {
    const bool gradient = action.kind == ActionKind::kBackward;
    double free = 0;
    for (int m = 0; m <= action.micro_batch; ++m) {
      const auto sent = sent_.find({from, 2 * m + (gradient ? 1 : 0)});
      free = std::max(free, sent == sent_.end() ? 0 : sent->second) +
             transfer(from, gradient, sizes[static_cast<size_t>(m) % sizes.size()]);
    }
    return free + speed_.link_seconds;
  }
  void run(const std::vector<Action>& row, int stages) {
    const auto sizes = plan_.sizes().of(plan_.batch);
    double now = 0;
    for (const Action& action : row) {
      if (action.micro_batch < 0 || is_of_updates(action.kind)) continue;
      const bool gradient = action.kind == ActionKind::kBackward;
      const int from = action.stage + (gradient ? 1 : -1);
      if (from >= 0 && from < stages) now = std::max(now, arrival(from, action, sizes));
      const StageCost cost =
          cost_of(model_, plan_, action.stage,
                  sizes[static_cast<size_t>(action.micro_batch) % sizes.size()], speed_);
      now += gradient ? cost.input_gradient : cost.forward;
      sent_[{action.stage, key(action)}] = now;
      if (gradient) now += cost.weight_gradient;
      end_[{action.stage, key(action)}] = now;
    }
  }

  const Model& model_;
  const Plan& plan_;
  const DeviceSpeed& speed_;
  std::map<Key, double> sent_, end_;
};

TEST(Simulate, AgreesWithAFixpointOnUnequalStagesAndSlowLinks) {
  const Model model = partitioner::make_zoo_model("mlp", {{40, 300, 20, 70, 90, 10, 5}});
  for (const double bandwidth : {1e5, 1e6, 1e9})
    for (const double latency : {0.0, 3e-4})
      for (const std::string name : {"gpipe", "1f1b"})
        for (int workers = 1; workers <= 4; ++workers) {
          const DeviceSpeed speed{1e9, 1e9, 2e-6, bandwidth, latency};
          const Plan plan = plan_of(model, request_of(Cut::kLayer, workers, 4, speed));
          const Schedule schedule = make_schedule(name, model, plan);
          const auto timeline = simulated(model, plan, schedule, speed);
          ASSERT_TRUE(timeline);
          const Fixpoint fixpoint(model, plan, schedule, speed);
          for (const auto& row : timeline->rows)
            for (const Moment& moment : row)
              if (moment.action.kind == ActionKind::kBackward) {
                EXPECT_NEAR(moment.end, fixpoint.end(moment.action), 1e-12)
                    << name << " over " << workers << ": " << to_string(moment.action);
              }
        }
}

// A step that goes on is one of many: the last but one of six, as a fixpoint has it of all six as
// one text. What is copied at an update takes no time here, and links are not so slow that what is
// told once a step holds others up.
TEST(Simulate, AgreesWithAFixpointOnStepsThatGoOn) {
  constexpr int kMicroBatches = 4, kSteps = 6, kTold = 4;
  const Model model = partitioner::make_zoo_model("mlp", {{40, 300, 20, 70, 90, 10, 5}});
  for (const double bandwidth : {1e6, 1e7, 1e9})
    for (const double latency : {0.0, 3e-4})
      for (const std::string name : {"pipedream", "pipedream-2bw", "ampnet"})
        for (const int workers : {2, 3}) {
          const DeviceSpeed speed{1e9, kNoLimit, 2e-6, bandwidth, latency};
          const Plan plan = plan_of(model, request_of(Cut::kLayer, workers, kMicroBatches, speed));
          const Schedule step = make_step(name, pipeline_of(model, plan), kMicroBatches);
          const auto timeline = simulated(model, plan, as_it_runs(step), speed);
          ASSERT_TRUE(timeline);
          const Fixpoint fixpoint(model, plan, unrolled(step, kSteps), speed);
          const auto end_of = [&](Action action, int of_step) {
            action.micro_batch += of_step * kMicroBatches;
            return fixpoint.end({action.stage, action.kind, action.micro_batch});
          };
          const Moment* first = nullptr;
          for (const auto& row : timeline->rows)
            for (const Moment& moment : row) {
              if (moment.action.kind != ActionKind::kBackward) continue;
              if (first == nullptr) first = &moment;
              EXPECT_NEAR(moment.end - first->end,
                          end_of(moment.action, kTold) - end_of(first->action, kTold), 1e-12)
                  << name << " over " << workers << ": " << to_string(moment.action);
            }
          const Action last{0, ActionKind::kBackward, kMicroBatches - 1};
          EXPECT_NEAR(timeline->step_seconds, (end_of(last, kTold) - end_of(last, kTold - 2)) / 2,
                      1e-12)
              << name << " over " << workers;
        }
}

// What a worker computes is what the plan says that it computes, however it is cut; and a step
// lasts as long as its busiest worker at least, and as all of them one after the other at most,
// where links take no time.
TEST(Simulate, ComputesWhatThePlanPredicts) {
  const DeviceSpeed speed{1e9, 1e9, 2e-6, kNoLimit, 0};
  for (const char* name : {"lenet5", "lenet5-bn", "seq2seq"})
    for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kHybrid}) {
      const Model model = partitioner::make_zoo_model(name);
      const Plan plan = plan_of(model, request_of(cut, 3, 4, speed));
      const auto timeline = simulated(model, plan, one_f_one_b(pipeline_of(model, plan), 4), speed);
      ASSERT_TRUE(timeline);
      double most = 0;
      for (const auto& worker : plan.workers) {
        EXPECT_NEAR(timeline->busy[static_cast<size_t>(worker.worker)], worker.seconds,
                    1e-9 * worker.seconds)
            << name << " " << to_string(cut);
        most = std::max(most, worker.seconds);
      }
      double all = std::accumulate(timeline->busy.begin(), timeline->busy.end(), 0.0);
      all = std::accumulate(timeline->copying.begin(), timeline->copying.end(), all);
      EXPECT_GE(timeline->step_seconds, most * (1 - 1e-9));
      EXPECT_LE(timeline->step_seconds, all * (1 + 1e-9));
    }
}

// What is lowered for its times alone takes the same as what is run, to the last bit, several parts
// of a worker and exchanges within groups included.
TEST(Simulate, TakesTheSameOfWhatIsLoweredForTimesAlone) {
  DeviceSpeed speed{1e9, 1e9, 2e-6, 1e8, 1e-5};
  speed.capacities.workers = {{.speed = 1}, {.speed = 2}, {.speed = 3}};
  for (const char* name : {"lenet5", "lenet5-bn", "seq2seq"})
    for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kBatch, Cut::kHybrid})
      for (const bool shared : {false, true}) {
        const Model whole = partitioner::make_zoo_model(name);
        PlanRequest request = request_of(cut, 3, 7, speed);
        if (shared) {
          request.placement = {0, 1, 1};
          request.speed.capacities.workers.pop_back();
        }
        const Model model = partitioner::model_for(whole, request);
        const Plan plan = plan_of(model, request);
        const auto schedule_of = [](const Model& of_model, const Plan& of) {
          return one_f_one_b(pipeline_of(of_model, of), of.micro_batches);
        };
        const auto timeline = simulated(model, plan, schedule_of(model, plan), request.speed);
        const auto seconds = simulated_step(schedule_of)->step_seconds(model, plan, request.speed);
        ASSERT_EQ(timeline.has_value(), seconds.has_value()) << name << " " << to_string(cut);
        if (timeline) {
          EXPECT_EQ(timeline->step_seconds, *seconds) << name << " " << to_string(cut);
        }
      }
}

TEST(Simulate, FindsNoTimeForAScheduleThatHangs) {
  const Model model = chain_model(2);
  const Plan plan = plan_of(model, request_of(Cut::kLayer, 2, 2, kSecondEach));
  const Schedule schedule = parse_schedule(
      "kerf-schedule 1\nname crossed\nworkers 2\nmicro-batches 2\nstage 0 on 0\nstage 1 on 1\n"
      "row 0: 0F0 0B0 0F1 0B1 0U\n"
      "row 1: 1F0 1F1 1B0 1B1 1U\n",
      "crossed");
  EXPECT_FALSE(simulated(model, plan, schedule, kSecondEach));
}

}  // namespace
}  // namespace kerf::schedmp
