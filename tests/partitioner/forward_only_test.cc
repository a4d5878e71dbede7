// Schedules without gradients: planned, priced and predicted as what runs.
#include <gmock/gmock.h>

#include <functional>
#include <limits>

#include "partitioner/tried_plan.h"
#include "schedmp/schedules.h"
#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

using testing::plan_of;
using testing::request_of;
using testing::sample_models;

// What gradients take that a schedule without any never computes.
Profile with_gradients_of(const Model& model, double first, double others) {
  Profile profile;
  for (NodeId node = 0; node < model.nodes(); ++node) {
    const double factor = node < model.nodes() / 3 ? first : others;
    profile.operators[model.node(node).name] = {1, factor, factor};
  }
  return profile;
}

PlanRequest with_schedule(PlanRequest request, const std::string& schedule) {
  request.schedule = schedule;
  request.trains = schedmp::in_flight_of(schedule)->trains();
  return request;
}

// Forward passes alone are balanced by their own prices: whatever the gradients take, the plan is
// the same, in whichever cut; where there are gradients, they move it.
TEST(ForwardOnly, GradientsCostNothing) {
  int moved = 0;
  for (const Model& model : sample_models())
    for (const Cut cut : {Cut::kLayer, Cut::kHybrid})
      for (const int workers : {2, 3}) {
        const auto planned = [&](const std::string& schedule, double first, double others) {
          PlanRequest request = with_schedule(request_of(cut, workers), schedule);
          request.speed.profile = with_gradients_of(model, first, others);
          const Model cut_model = model_for(model, request);
          return std::get<Plan>(make_plan(cut_model, request, *schedmp::in_flight_of(schedule)));
        };
        const Plan light = planned("forward-only", 1, 1);
        const Plan heavy = planned("forward-only", 400, 0.01);
        EXPECT_EQ(light.stages, heavy.stages);
        EXPECT_EQ(light.division, heavy.division);
        EXPECT_EQ(light.bottleneck, heavy.bottleneck);
        EXPECT_EQ(light.bound, heavy.bound);
        moved += planned("1f1b", 1, 1).stages != planned("1f1b", 400, 0.01).stages;
      }
  EXPECT_GT(moved, 10);
}

// Of every division into segments of the operators the one whose slowest stage takes least: what
// its operators' forward passes take, and the values that it receives.
TEST(ForwardOnly, AStageCostsItsForwardPassesAndWhatItReceives) {
  const Model model = make_zoo_model("mlp", {{64, 128, 128, 32, 10}});
  for (const int workers : {2, 3}) {
    const PlanRequest request = with_schedule(request_of(Cut::kLayer, workers), "forward-only");
    const auto in_flight = schedmp::in_flight_of("forward-only");
    const Plan plan = std::get<Plan>(make_plan(model, request, *in_flight));
    std::vector<double> own;
    for (NodeId node = 0; node < model.nodes(); ++node) {
      const ops::Box whole = whole_division(model, node, 0).shares[0].box;
      double sum = 0;
      for (const int64_t samples : request.sizes().of(request.batch))
        sum += node_cost(model, node, whole, request.largest_micro_batch(), samples, request.speed)
                   .forward_seconds;
      own.push_back(sum);
    }
    // A chain: what enters is what the operator before made.
    const auto entering = [&](NodeId node) {
      const ops::ValueSpec& spec = model.value(model.node(node).inputs[0]).spec;
      return node == 0 ? 0
                       : static_cast<double>(spec.bytes(request.batch)) /
                                 request.speed.link_bytes_per_second +
                             request.micro_batches * request.speed.link_seconds;
    };
    double best = std::numeric_limits<double>::infinity();
    const std::function<void(NodeId, int, double)> divide = [&](NodeId begin, int left,
                                                                double most) {
      double price = entering(begin);
      for (NodeId end = begin + 1; end <= model.nodes(); ++end) {
        price += own[static_cast<size_t>(end - 1)];
        if (left == 1 && end < model.nodes()) continue;
        if (left == 1) best = std::min(best, std::max(most, price));
        if (left > 1 && end < model.nodes()) divide(end, left - 1, std::max(most, price));
      }
    };
    divide(0, workers, 0);
    EXPECT_NEAR(plan.bottleneck, best, 1e-9 * best);
    for (const WorkerPrediction& worker : plan.workers) {
      double seconds = 0;
      for (const NodeId node : plan.stages[static_cast<size_t>(worker.worker)].nodes)
        seconds += own[static_cast<size_t>(node)];
      EXPECT_NEAR(worker.seconds, seconds, 1e-9 * seconds);
    }
    int64_t messages = 0;
    for (const WorkerPrediction& worker : plan.workers) messages += worker.messages;
    int64_t carried = 0;
    for (const Traffic& traffic : predict_traffic(model, plan, plan.batch, false))
      carried += traffic.messages;
    EXPECT_EQ(messages, carried);
    const Plan training = plan_of(model, request_of(Cut::kLayer, workers));
    EXPECT_LT(peak_of(plan), peak_of(training)) << "no gradients, no momentum";
    const Plan back =
        read_plan(model, write_plan(model, plan, PlanText::kDecisions), "plan.json",
                  [](const std::string& name) { return schedmp::in_flight_of(name); });
    EXPECT_EQ(back.bottleneck, plan.bottleneck);
    EXPECT_EQ(back.workers, plan.workers);
  }
}

}  // namespace
}  // namespace kerf::partitioner
