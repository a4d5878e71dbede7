// Predictions: work and weights add up to the model's, messages follow the formulas of the
// literature, and memory is never under what the verifier finds by walking the instructions.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "partitioner/part.h"
#include "schedmp/schedules.h"
#include "schedmp/verify.h"
#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

using testing::plan_of;
using testing::request_of;
using testing::sample_models;
using testing::sample_plans;
using testing::skip_model;
using testing::small_mlp;

template <class Figure>
double total(const Plan& plan, Figure figure) {
  double sum = 0;
  for (const WorkerPrediction& worker : plan.workers) sum += static_cast<double>(worker.*figure);
  return sum;
}

// Of all of a node, for a micro-batch of `samples`.
NodeCost cost_of(const Model& model, NodeId node, int64_t samples) {
  return node_cost(model, node, whole_division(model, node, 0).shares[0].box, samples, samples);
}

TEST(Cost, OfAGemmIsTwiceItsProducts) {
  const Model model = small_mlp();
  const NodeCost cost = cost_of(model, model.find_node("fc2"), 5);
  EXPECT_NEAR(cost.work.forward_flops, 2.0 * 5 * 16 * 12, 5 * 12);  // and the bias
  EXPECT_NEAR(cost.work.input_gradient_flops, 2.0 * 5 * 16 * 12, 1);
  EXPECT_GT(cost.forward_seconds, DeviceSpeed{}.launch_seconds);
}

TEST(Cost, OfTheFirstLayerHasNoInputGradient) {
  const Model model = small_mlp();
  const NodeCost cost = cost_of(model, model.find_node("fc1"), 5);
  EXPECT_EQ(cost.work.input_gradient_flops, 0);
  EXPECT_EQ(cost.input_gradient_seconds, 0);
  EXPECT_GT(cost.weight_gradient_seconds, 0);
}

TEST(Cost, OfAnAliasIsNothing) {
  const Model model = make_zoo_model("lenet5");
  EXPECT_EQ(cost_of(model, model.find_node("flatten"), 5).total_seconds(), 0);
}

TEST(Cost, OfSharesAddsUpToTheWhole) {
  const Model model = small_mlp();
  const NodeId node = model.find_node("fc1");
  const ops::IndexSet all;
  double sum = 0;
  for (const ops::IndexSet& set : ops::split_evenly(16, 3))
    sum += node_cost(model, node, {{all, set, all}}, 7, 7).work.forward_flops;
  const double whole = cost_of(model, node, 7).work.forward_flops;
  EXPECT_DOUBLE_EQ(sum, whole);
  sum = 0;
  for (const ops::IndexSet& set : ops::split_evenly(7, 3))  // of samples
    sum += node_cost(model, node, {{set, all, all}}, 7, 7).work.forward_flops;
  EXPECT_DOUBLE_EQ(sum, whole);
  sum = 0;
  for (const ops::IndexSet& set : ops::split_evenly(20, 3))  // of inputs; the first adds the bias
    sum += node_cost(model, node, {{all, all, set}}, 7, 7).work.forward_flops;
  EXPECT_DOUBLE_EQ(sum, whole);
}

// Samples are those of the largest micro-batch: a smaller one leaves less to do, or nothing.
TEST(Cost, OfADividedBatchIsOfWhatAMicroBatchHas) {
  const Model model = small_mlp();
  const NodeId node = model.find_node("fc2");
  const ops::IndexSet all;
  const ops::Box last{{ops::IndexSet::range(4, 8), all, all}};
  const auto flops = [&](int64_t samples) {
    return node_cost(model, node, last, 8, samples).work.forward_flops;
  };
  EXPECT_DOUBLE_EQ(flops(8), cost_of(model, node, 4).work.forward_flops);
  EXPECT_DOUBLE_EQ(flops(7), cost_of(model, node, 3).work.forward_flops);
  EXPECT_EQ(flops(4), 0);
  EXPECT_EQ(flops(1), 0);
}

TEST(Predict, WorkAndWeightsAddUpToTheModels) {
  for (const auto& [model, plan] : sample_plans()) {
    const Plan alone = plan_of(model, request_of(Cut::kLayer, 1));
    EXPECT_NEAR(total(plan, &WorkerPrediction::weight_bytes),
                total(alone, &WorkerPrediction::weight_bytes), 0)
        << model.name() << " " << to_string(plan.cut);
    EXPECT_GE(total(plan, &WorkerPrediction::forward_flops) * (1 + 1e-12),
              total(alone, &WorkerPrediction::forward_flops));
    if (plan.cut == Cut::kLayer) {
      EXPECT_NEAR(total(plan, &WorkerPrediction::forward_flops) /
                      total(alone, &WorkerPrediction::forward_flops),
                  1, 1e-12);
    }
    EXPECT_EQ(total(plan, &WorkerPrediction::bytes_in), total(plan, &WorkerPrediction::bytes_out));
  }
}

// And once a step, a share of the step vector from every worker but the first, and its result back:
// to all but a worker of a stage without parameters, which has nothing to say either.
TEST(Predict, AChainCutByLayersSendsTwoMessagesPerBoundaryAndMicroBatch) {
  const Model model = small_mlp();
  for (const int workers : {2, 3, 4}) {
    const Plan plan = plan_of(model, request_of(Cut::kLayer, workers, 32, 4));
    int trained = 0;  // stages behind the first
    bool loss_alone = true;
    for (size_t stage = 1; stage < plan.stages.size(); ++stage) {
      const auto& nodes = plan.stages[stage].nodes;
      const bool trains = std::any_of(nodes.begin(), nodes.end(),
                                      [&](NodeId node) { return model.node(node).op == "Gemm"; });
      trained += trains ? 1 : 0;
      if (trains && plan.stage_of(model.loss()) == static_cast<int>(stage)) loss_alone = false;
    }
    EXPECT_EQ(total(plan, &WorkerPrediction::messages),
              (workers - 1) * 2 * 4 + 2 * trained + (loss_alone ? 1 : 0))
        << workers;
  }
}

TEST(Predict, ForwardOnlyTrafficLeavesGradientsAndWeightsOut) {
  for (const auto& [model, plan] : sample_plans()) {
    const std::vector<Traffic> both = predict_traffic(model, plan, plan.batch);
    const std::vector<Traffic> forward = predict_traffic(model, plan, plan.batch, false);
    ASSERT_EQ(both.size(), plan.routes.size());
    for (size_t r = 0; r < both.size(); ++r)
      EXPECT_EQ(forward[r],
                plan.routes[r].gradient || is_of_step(model, plan.routes[r]) ? Traffic{} : both[r]);
  }
}

TEST(Predict, TrafficFollowsTheRowsOfASmallerLastBatch) {
  const Model model = small_mlp();
  const Plan plan = plan_of(model, request_of(Cut::kLayer, 2, 32, 4));
  const std::vector<Traffic> full = predict_traffic(model, plan, 32);
  const std::vector<Traffic> half = predict_traffic(model, plan, 16);
  for (size_t r = 0; r < full.size(); ++r) {
    EXPECT_EQ(full[r].messages, half[r].messages);
    EXPECT_EQ(full[r].bytes, (is_of_step(model, plan.routes[r]) ? 1 : 2) * half[r].bytes);
  }
}

TEST(Predict, MessagesAreOfEachMicroBatchsOwnRows) {
  const Model model = small_mlp();
  PlanRequest request = request_of(Cut::kLayer, 2, 32, 4);
  request.given_sizes = {17, 1, 9, 5};
  const Plan given = plan_of(model, request);
  const Plan even = plan_of(model, request_of(Cut::kLayer, 2, 32, 4));
  EXPECT_EQ(predict_traffic(model, given, 32), predict_traffic(model, even, 32))
      << "as many rows go as ever";
  EXPECT_EQ(given.division.largest, 17);
  EXPECT_GT(given.workers[0].activation_bytes, even.workers[0].activation_bytes);
  const std::vector<Traffic> part = predict_traffic(model, given, 20);
  for (size_t r = 0; r < part.size(); ++r) {
    if (is_of_step(model, given.routes[r])) continue;
    int64_t bytes = 0;
    for (const int64_t rows : {17, 1, 2, 0})
      bytes += static_cast<int64_t>(message_bytes(model, given.routes[r], rows));
    EXPECT_EQ(part[r], (Traffic{4, bytes})) << r;
  }
}

// The floor above knows the truth: what each instruction allocates and frees, in the schedule's
// order. The prediction must be no less, and not absurdly more where memory matters.
void expect_peak_covers(const Model& model, const PlanRequest& request) {
  const auto in_flight = schedmp::in_flight_of(request.schedule);
  const Plan plan = std::get<Plan>(make_plan(model, request, *in_flight));
  const auto schedule = schedmp::make_schedule(request.schedule, model, plan);
  const auto verdict = schedmp::verify(model, plan, lower(model, plan), schedule, request.setting);
  SCOPED_TRACE(format("{} {} {} over {} workers, slots at {}", model.name(), to_string(request.cut),
                      request.schedule, request.workers,
                      static_cast<int>(request.setting.slot_place)));
  ASSERT_THAT(verdict.problems, ::testing::IsEmpty());
  double predicted = 0;
  double walked = 0;
  for (size_t w = 0; w < plan.workers.size(); ++w) {
    EXPECT_GE(plan.workers[w].peak_bytes, verdict.peak_bytes[w]) << "worker " << w;
    predicted = std::max(predicted, static_cast<double>(plan.workers[w].peak_bytes));
    walked = std::max(walked, static_cast<double>(verdict.peak_bytes[w]));
  }
  EXPECT_LT(predicted, 1.5 * walked);
}

TEST(Predict, PeakMemoryIsNeverUnderWhatRuns) {
  for (const Model& model : sample_models())
    for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kHybrid, Cut::kFree})
      for (const int workers : {1, 2, 3, 4})
        for (const char* name : {"1f1b", "gpipe"})
          for (const SlotPlace place :
               {SlotPlace::kSender, SlotPlace::kBothEnds, SlotPlace::kExported}) {
            if (model.name() == "lenet5" && cut != Cut::kLayer) continue;
            PlanRequest request = request_of(cut, workers, 64, 8);
            request.schedule = name;
            request.setting.slot_place = place;
            expect_peak_covers(model, request);
          }
}

TEST(Predict, TensorsTakeTheSameWhateverKernelsTakeBeside) {
  const Model model = make_zoo_model("lenet5-bn", {});
  PlanRequest request = request_of(Cut::kLayer, 2, 64, 8);
  const auto in_flight = schedmp::in_flight_of(request.schedule);
  const Plan plan = std::get<Plan>(make_plan(model, request, *in_flight));
  request.setting.threads = 64;
  const auto threaded = predict(model, plan, request, *in_flight);
  request.setting.slots += 1;
  const auto slots = predict(model, plan, request, *in_flight);
  for (size_t w = 0; w < 2; ++w) {
    EXPECT_EQ(threaded[w].tensor_bytes, plan.workers[w].tensor_bytes);
    EXPECT_GT(slots[w].tensor_bytes, threaded[w].tensor_bytes);
    EXPECT_EQ(slots[w].peak_bytes - threaded[w].peak_bytes,
              slots[w].tensor_bytes.value() - threaded[w].tensor_bytes.value());
    EXPECT_LT(threaded[w].tensor_bytes.value(), threaded[w].peak_bytes) << "sums of threads";
  }
}

}  // namespace
}  // namespace kerf::partitioner
