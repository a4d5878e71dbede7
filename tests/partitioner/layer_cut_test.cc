// The layer cut: acyclic by construction, as good as trying everything on models small enough for
// that.
#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <set>

#include "partitioner/graph_plan.h"
#include "partitioner/layers_by_step.h"
#include "partitioner/model_graph.h"
#include "partitioner/tried_plan.h"
#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

using testing::branch_model;
using testing::complaint;
using ::testing::HasSubstr;
using testing::plan_of;
using testing::request_of;
using testing::sample_models;
using testing::skip_model;
using testing::small_mlp;

TEST(LayerCut, DividesEveryModelIntoAsManyStagesAsWorkers) {
  for (const Model& model : sample_models())
    for (int workers = 1; workers <= model.nodes(); ++workers) {
      const Plan plan = plan_of(model, request_of(Cut::kLayer, workers));
      EXPECT_THAT(validate(model, plan), ::testing::IsEmpty()) << model.name() << workers;
      ASSERT_EQ(plan.stages.size(), static_cast<size_t>(workers));
      EXPECT_GE(plan.bottleneck, plan.bound);
      EXPECT_GT(plan.bound, 0);
    }
}

// Prices of the nodes, as FLOPs of one step.
std::vector<double> flops_of(const Model& model, const PlanRequest& request) {
  std::vector<double> result;
  for (NodeId node = 0; node < model.nodes(); ++node) {
    const ops::Box whole = whole_division(model, node, 0).shares[0].box;
    double sum = 0;
    for (const int64_t samples : request.sizes().of(request.batch))
      sum +=
          node_cost(model, node, whole, request.largest_micro_batch(), samples).work.forward_flops;
    result.push_back(sum);
  }
  return result;
}

// The least largest stage over all divisions into `stages` non-empty stages whose graph is acyclic
// and numbered along its edges: each node in the stage of its producers or later.
double best_of_all(const Model& model, const std::vector<double>& prices, int stages) {
  std::vector<double> load(static_cast<size_t>(stages));
  std::vector<int> count(static_cast<size_t>(stages));
  std::vector<int> stage(static_cast<size_t>(model.nodes()));
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(NodeId)> place = [&](NodeId node) {
    if (*std::max_element(load.begin(), load.end()) >= best) return;
    if (node == model.nodes()) {
      if (*std::min_element(count.begin(), count.end()) > 0)
        best = *std::max_element(load.begin(), load.end());
      return;
    }
    int first = 0;
    for (const ValueId value : model.node(node).inputs)
      if (const NodeId from = model.value(value).producer; from >= 0)
        first = std::max(first, stage[static_cast<size_t>(from)]);
    for (int s = first; s < stages; ++s) {
      const auto at = static_cast<size_t>(s);
      const double before = load[at];
      load[at] += prices[static_cast<size_t>(node)];
      ++count[at];
      stage[static_cast<size_t>(node)] = s;
      place(node + 1);
      load[at] = before;
      --count[at];
    }
  };
  place(0);
  return best;
}

TEST(LayerCut, IsAsGoodAsTryingEverything) {
  for (const Model& model : {small_mlp(), skip_model(), branch_model(), make_zoo_model("lenet5")})
    for (const int workers : {2, 3, 4}) {
      PlanRequest request = request_of(Cut::kLayer, workers);
      request.minimise = Minimise::kForwardFlops;
      const Plan plan = plan_of(model, request);
      const double best = best_of_all(model, flops_of(model, request), workers);
      EXPECT_NEAR(plan.bottleneck, best, 1e-12 * best) << model.name() << " over " << workers;
      double most = 0;
      for (const WorkerPrediction& w : plan.workers) most = std::max(most, w.forward_flops);
      EXPECT_NEAR(plan.bottleneck, most, 1e-9 * most);
    }
}

TEST(LayerCut, OfEqualBottlenecksItTakesTheFewestBytes) {
  // "wide" is the bottleneck whatever comes after it: the second boundary is free, and belongs
  // where the value on the wire is narrow.
  Builder b("funnel");
  const ValueId x = b.input("x", {ops::kBatch, 64});
  b.loss(b.gemm(b.relu(b.gemm(b.relu(b.gemm(x, 64, "wide")), 4, "narrow"), "after"), 64, "last"));
  PlanRequest request = request_of(Cut::kLayer, 3);
  request.minimise = Minimise::kForwardFlops;
  const Model model = b.build();
  const Plan plan = plan_of(model, request);
  EXPECT_EQ(plan.stages[0].nodes, std::vector<NodeId>{model.find_node("wide")});
  for (const Route& route : plan.routes)
    if (route.value != kStepVector) {
      EXPECT_EQ(model.value(route.value).spec.shape[1], route.from + route.to == 1 ? 64 : 4);
    }
}

// The scores are few bytes, but a worker for the loss alone would only wait.
TEST(LayerCut, OfEqualBottlenecksTheLossStaysWithItsScores) {
  PlanRequest request = request_of(Cut::kLayer, 3);
  request.minimise = Minimise::kForwardFlops;
  const Model model = make_zoo_model("mlp", {{784, 512, 512, 10}});
  const Plan plan = plan_of(model, request);
  EXPECT_EQ(plan.stage_of(model.loss()), plan.stage_of(model.find_node("fc3")));
}

TEST(LayerCut, TimeCountsTransfers) {
  PlanRequest request = request_of(Cut::kLayer, 2);
  request.speed.link_bytes_per_second = 1e3;  // a wire so slow that only bytes matter
  const Model model = make_zoo_model("lenet5");
  const Plan plan = plan_of(model, request);
  int64_t bytes = 0;
  const auto traffic = predict_traffic(model, plan, plan.batch);
  for (const Route& route : plan.routes)
    if (!is_of_step(model, route)) bytes += traffic[static_cast<size_t>(route.id)].bytes;
  EXPECT_LE(bytes, 2 * 30 * 10 * 4);  // the scores, the narrowest value, both ways
}

TEST(LayerCut, UsersOfOneParameterStayTogether) {
  Builder b("tied");
  const ValueId x = b.input("x", {ops::kBatch, 8});
  const ValueId w = b.parameter("w", {8, 8}, {});
  const ValueId h =
      b.relu(b.node("Gemm", {b.relu(b.node("Gemm", {x, w}, {}, "one")), w}, {}, "two"));
  b.loss(b.gemm(h, 4, "last"));
  const Model model = b.build();
  const Plan plan = plan_of(model, request_of(Cut::kLayer, 3));
  EXPECT_EQ(plan.stage_of(model.find_node("one")), plan.stage_of(model.find_node("two")));
  EXPECT_THAT(
      complaint([&] { plan_of(model, request_of(Cut::kLayer, 6)); }, ErrorCode::kInfeasible),
      HasSubstr("share a parameter"));
}

TEST(LayerCut, RefusesMoreWorkersThanOperators) {
  const std::string text =
      complaint([] { plan_of(small_mlp(), request_of(Cut::kLayer, 20)); }, ErrorCode::kInfeasible);
  EXPECT_THAT(text, HasSubstr("20 workers"));
  EXPECT_THAT(text, HasSubstr("6 operators"));
}

TEST(LayerCut, RefusesRequestsWithoutSense) {
  const Model model = small_mlp();
  const auto with = [&](int workers, int64_t batch, int micro_batches) {
    return complaint(
        [&] { plan_of(model, request_of(Cut::kLayer, workers, batch, micro_batches)); });
  };
  EXPECT_THAT(with(0, 30, 4), HasSubstr("--workers"));
  EXPECT_THAT(with(2, 0, 4), HasSubstr("--batch"));
  EXPECT_THAT(with(2, 30, 0), HasSubstr("--micro-batches"));
  EXPECT_THAT(with(2, 3, 4), HasSubstr("--micro-batches"));
}

// Kernels count with 32 bits: what wraps would be divided by, or planned with.
TEST(LayerCut, NamesTheOperatorOfMoreRowsThanItsKernelCounts) {
  const auto with = [&](const char* model, int64_t batch) {
    return complaint([&] { plan_of(make_zoo_model(model), request_of(Cut::kLayer, 2, batch, 1)); });
  };
  EXPECT_THAT(with("gpt", int64_t{1} << 26),
              HasSubstr("gpt/h.0.attn.c_attn: computes 8589934592 rows"));
  EXPECT_THAT(with("gpt", int64_t{1} << 26), HasSubstr("use a smaller --batch"));
  EXPECT_THAT(with("shufflenet", int64_t{1} << 31), HasSubstr("shufflenet/conv1.0: computes"));
  EXPECT_THAT(with("lstm-lm", int64_t{1} << 31), HasSubstr("lstm-lm/lstm: computes"));
}

TEST(LayerCut, NamesTheFlagsWhereSlotsTakeMoreThanThereIs) {
  PlanRequest request = request_of(Cut::kLayer, 2, int64_t{1} << 31, 1024);
  const std::string text = complaint([&] { plan_of(make_zoo_model("gpt"), request); });
  EXPECT_THAT(text, HasSubstr("the slots of h.2.ln_1.output, 1026 of "));
  for (const char* flag : {"a smaller --batch", "fewer --slots", "more --micro-batches"})
    EXPECT_THAT(text, HasSubstr(flag));
}

TEST(LayerFront, IsOfWorkersThatAreAlikeAndUnsteered) {
  const Model model = small_mlp();
  PlanRequest request = request_of(Cut::kLayer, 2);
  const auto front = layer_front(model, request, *hold_everything());
  ASSERT_GT(front.size(), 1U);
  request.memory = peak_of(front.front()) - 1;
  for (const Plan& plan : layer_front(model, request, *hold_everything()))
    EXPECT_LE(peak_of(plan), *request.memory);
  request.memory.reset();
  request.steering.stages_per_worker = 2;
  EXPECT_THAT(complaint([&] { layer_front(model, request, *hold_everything()); }),
              HasSubstr("--front is of workers that are all alike"));
}

// No loss, so that nothing comes back.
Model lossless_model() {
  Builder b("lossless");
  const ValueId x = b.input("x", {ops::kBatch, 12});
  const ValueId h = b.relu(b.gemm(x, 300, "a"), "a_relu");
  b.gemm(b.add(b.gemm(h, 40, "b"), b.gemm(h, 40, "skip"), "sum"), 10, "c");
  return b.build();
}

// Beside what leads to the loss, a reader that has no gradient.
Model dead_branch_model() {
  Builder b("dead branch");
  const ValueId x = b.input("x", {ops::kBatch, 12});
  const ValueId h = b.relu(b.gemm(x, 200, "a"), "a_relu");
  const ValueId best =
      b.node("ArgMax", {h}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}}, "best");
  const ValueId of_best = b.embedding(best, 200, 32, "of_best");
  b.loss(b.gemm(b.add(b.gemm(h, 32, "b"), of_best, "sum"), 10, "c"));
  return b.build();
}

// The search prices segments of the cost graph, the plan its parts and routes: one price.
TEST(LayerCut, ThePlanCostsWhatTheSearchSays) {
  std::vector<Model> models = sample_models();
  models.push_back(lossless_model());
  models.push_back(dead_branch_model());
  for (const Model& model : models)
    for (const int workers : {1, 2, 3, 4})
      for (const Minimise minimise : {Minimise::kTime, Minimise::kForwardFlops}) {
        PlanRequest request = request_of(Cut::kLayer, workers);
        request.minimise = minimise;
        const Plan plan = plan_of(model, request);
        std::vector<std::vector<int>> stages;
        for (const Stage& stage : plan.stages) stages.push_back(stage.nodes);
        const GraphPlan priced = price_division(cost_graph_of(model, request), {stages});
        EXPECT_NEAR(plan.bottleneck, priced.bottleneck, 1e-9 * plan.bottleneck);
        EXPECT_TRUE(priced.acyclic);
        double bytes = 0;
        const auto traffic = predict_traffic(model, plan, plan.batch, false);
        for (const Traffic& route : traffic) bytes += static_cast<double>(route.bytes);
        EXPECT_EQ(priced.cut_bytes, bytes);
      }
}

// Where stages can stand in few ways, all are weighed: that no move from another leads to one does
// not matter.
TEST(LayersByStep, WeighEveryWayWhereTheyAreFew) {
  const Model model = small_mlp();
  ASSERT_EQ(model.nodes(), 6);
  std::set<std::vector<size_t>> weighed;
  const StepCostOf cost_of = [&](const Assignment& assignment) -> std::optional<StepCost> {
    std::vector<size_t> sizes;
    for (const Stage& stage : assignment.stages) sizes.push_back(stage.nodes.size());
    weighed.insert(sizes);
    return StepCost{sizes == std::vector<size_t>{1, 1, 4} ? 1.0 : 2.0, 0};
  };
  const auto best = best_layers_by_step(model, request_of(Cut::kLayer, 3), {7, "why"}, cost_of);
  EXPECT_EQ(weighed.size(), 10U) << "two boundaries at five places";
  ASSERT_TRUE(best);
  EXPECT_EQ(best->stages[2].nodes.size(), 4U);
  EXPECT_EQ(best->bound, 7);
  EXPECT_EQ(best->witness, "why");
}

}  // namespace
}  // namespace kerf::partitioner
