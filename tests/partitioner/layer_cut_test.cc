// The layer cut: acyclic by construction, as good as trying everything on models small enough for
// that, within its memory cap, and helpful where nothing fits.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <map>
#include <regex>
#include <set>

#include "partitioner/graph_plan.h"
#include "partitioner/layers_by_step.h"
#include "partitioner/least_memory.h"
#include "partitioner/model_graph.h"
#include "schedmp/schedules.h"
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

// Holds one micro-batch less from stage to stage, as 1F1B does.
class Descending final : public InFlight {
 public:
  std::vector<Flight> of(const Pipeline& pipeline, int micro_batches) const override {
    std::vector<Flight> flights;
    for (const int hops : hops_to_the_end(pipeline))
      flights.push_back({std::min(hops + 1, micro_batches), 0});
    return flights;
  }
};

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
    for (const int64_t samples : micro_batch_sizes(request.batch, request.micro_batches))
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

int64_t largest_peak(const Plan& plan) {
  int64_t most = 0;
  for (const WorkerPrediction& w : plan.workers) most = std::max(most, w.peak_bytes);
  return most;
}

TEST(MemoryCap, IsKeptAndMovesTheBoundary) {
  int kept = 0;
  for (const Model& model : sample_models())
    for (const int workers : {2, 3}) {
      PlanRequest request = request_of(Cut::kLayer, workers);
      const Plan free = std::get<Plan>(make_plan(model, request, Descending()));
      request.memory = largest_peak(free) * 95 / 100;
      const auto capped = make_plan(model, request, Descending());
      if (const Plan* plan = std::get_if<Plan>(&capped)) {
        ++kept;
        EXPECT_LE(largest_peak(*plan), *request.memory);
        EXPECT_GE(plan->bottleneck, free.bottleneck);
        EXPECT_NE(plan->stages, free.stages);
      }
    }
  EXPECT_GE(kept, 4);
}

TEST(MemoryCap, APlanFitsIntoWhatItSaysThatItTakes) {
  for (const Model& model : sample_models())
    for (int workers = 1; workers <= std::min(6, model.nodes()); ++workers)
      for (const SlotPlace place :
           {SlotPlace::kSender, SlotPlace::kBothEnds, SlotPlace::kExported}) {
        PlanRequest request = request_of(Cut::kLayer, workers);
        request.setting.slot_place = place;
        request.memory = largest_peak(std::get<Plan>(make_plan(model, request, Descending())));
        const auto again = make_plan(model, request, Descending());
        ASSERT_TRUE(std::holds_alternative<Plan>(again)) << model.name() << " over " << workers;
        EXPECT_LE(largest_peak(std::get<Plan>(again)), *request.memory);
      }
}

TEST(LayerFront, IsOfWorkersThatAreAlikeAndUnsteered) {
  const Model model = small_mlp();
  PlanRequest request = request_of(Cut::kLayer, 2);
  const auto front = layer_front(model, request, *hold_everything());
  ASSERT_GT(front.size(), 1U);
  request.memory = largest_peak(front.front()) - 1;
  for (const Plan& plan : layer_front(model, request, *hold_everything()))
    EXPECT_LE(largest_peak(plan), *request.memory);
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
      for (const int64_t samples : micro_batch_sizes(request.batch, request.micro_batches))
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
    EXPECT_LT(largest_peak(plan), largest_peak(training)) << "no gradients, no momentum";
    const Plan back =
        read_plan(model, write_plan(model, plan, PlanText::kDecisions), "plan.json",
                  [](const std::string& name) { return schedmp::in_flight_of(name); });
    EXPECT_EQ(back.bottleneck, plan.bottleneck);
    EXPECT_EQ(back.workers, plan.workers);
  }
}

// Follows the advice in `change` ("--memory 52428800", ...).
PlanRequest changed(PlanRequest request, const std::string& change) {
  std::smatch match;
  EXPECT_TRUE(std::regex_match(change, match, std::regex("--([a-z-]+) ([0-9]+)"))) << change;
  const int64_t number = std::stoll(match[2]);
  if (match[1] == "memory") request.memory = number;
  if (match[1] == "workers") request.workers = static_cast<int>(number);
  if (match[1] == "micro-batches") request.micro_batches = static_cast<int>(number);
  return request;
}

TEST(MemoryCap, WhereNothingFitsTheReportNamesTheSmallestChangeThatDoes) {
  std::map<std::string, int> kinds;
  for (const Model& model : sample_models())
    for (const int workers : {1, 2, 3})
      for (const int64_t percent : {99, 40, 1}) {
        PlanRequest request = request_of(Cut::kLayer, workers, 64, 4);
        const Plan plan = std::get<Plan>(make_plan(model, request, Descending()));
        request.memory = std::max<int64_t>(1, largest_peak(plan) * percent / 100);
        const auto result = make_plan(model, request, Descending());
        const auto* no = std::get_if<Infeasible>(&result);
        if (no == nullptr) continue;
        EXPECT_EQ(no->cap, *request.memory);
        EXPECT_GT(no->over, 0);
        EXPECT_LT(no->stage, workers);
        EXPECT_THAT(no->text(), HasSubstr(format("stage {}", no->stage)));
        EXPECT_THAT(no->text(), HasSubstr(format("{} bytes", no->over)));
        EXPECT_THAT(no->text(), HasSubstr(no->smallest_change));
        ++kinds[no->smallest_change.substr(0, no->smallest_change.find(' '))];
        const PlanRequest better = changed(request, no->smallest_change);
        EXPECT_TRUE(std::holds_alternative<Plan>(make_plan(model, better, Descending())))
            << model.name() << ": " << no->text();
        if (!no->smallest_change.starts_with("--memory")) continue;
        PlanRequest worse = better;  // one byte less does not do
        --*worse.memory;
        EXPECT_TRUE(std::holds_alternative<Infeasible>(make_plan(model, worse, Descending())));
      }
  EXPECT_GT(kinds["--micro-batches"], 0);
  EXPECT_GT(kinds["--memory"], 0);
}

// Of rows that take most of the memory: far more micro-batches than were asked for.
TEST(MemoryCap, WhereRowsDoNotFitManyMoreMicroBatchesDo) {
  const Model model = make_zoo_model("lenet5");
  PlanRequest request = request_of(Cut::kFeature, 2, 512, 2);
  const auto peak_at = [&](int micro_batches) {
    PlanRequest changed = request;
    changed.micro_batches = micro_batches;
    return largest_peak(std::get<Plan>(make_plan(model, changed, Descending())));
  };
  ASSERT_LT(peak_at(64), peak_at(63));
  request.memory = peak_at(64);
  const auto result = make_plan(model, request, Descending());
  ASSERT_TRUE(std::holds_alternative<Infeasible>(result));
  EXPECT_EQ(std::get<Infeasible>(result).smallest_change, "--micro-batches 64");
}

TEST(MemoryCap, WhereWeightsDoNotFitMoreWorkersDo) {
  const Model model = make_zoo_model("mlp", {{256, 256, 256, 10}});
  PlanRequest request = request_of(Cut::kFeature, 2, 8, 2);
  request.memory = largest_peak(std::get<Plan>(make_plan(model, request, Descending()))) * 3 / 4;
  const auto result = make_plan(model, request, Descending());
  ASSERT_TRUE(std::holds_alternative<Infeasible>(result));
  EXPECT_EQ(std::get<Infeasible>(result).smallest_change, "--workers 3");
  EXPECT_THAT(std::get<Infeasible>(result).text(), HasSubstr(", or --memory "));
}

// What workers hold between them, whatever the cut: of all plans none has less.
TEST(LeastMemory, IsNotAboveWhatAnyPlanTakes) {
  for (const Model& model : sample_models())
    for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kBatch, Cut::kHybrid})
      for (const int workers : {1, 2, 3})
        for (const int micro_batches : {1, 4})
          for (const int states : {0, 2}) {
            PlanRequest request = request_of(cut, workers, 32, micro_batches);
            request.setting.optimizer_states = states;
            const Model rewritten = model_for(model, request);
            const Plan plan = plan_of(rewritten, request);
            int64_t all = 0;
            for (const WorkerPrediction& worker : plan.workers) all += worker.peak_bytes;
            const int64_t least = least_memory(rewritten, request);
            EXPECT_LE(least, all) << model.name() << " " << to_string(cut) << " " << workers;
            EXPECT_GT(least, 0);
            request.memory = least / workers - 1;
            EXPECT_FALSE(fits(rewritten, request, *hold_everything()));
          }
}

// Of many operators what would do is told to a part in some hundreds, and found with few plans.
TEST(MemoryCap, OfManyOperatorsWhatIsAdvisedFits) {
  const Model model = make_zoo_model("mlp", {std::vector<int64_t>(60, 16)});
  ASSERT_GT(model.nodes(), kFewNodes);
  PlanRequest request = request_of(Cut::kLayer, 3, 64, 4);
  request.memory = 1;
  const auto result = make_plan(model, request, Descending());
  ASSERT_TRUE(std::holds_alternative<Infeasible>(result));
  const PlanRequest better = changed(request, std::get<Infeasible>(result).smallest_change);
  ASSERT_TRUE(better.memory.has_value());
  EXPECT_TRUE(std::holds_alternative<Plan>(make_plan(model, better, Descending())));
  PlanRequest worse = better;
  *worse.memory -= *worse.memory / 20;
  EXPECT_TRUE(std::holds_alternative<Infeasible>(make_plan(model, worse, Descending())));
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
  const auto best = best_layers_by_step(model, request_of(Cut::kLayer, 3), {}, cost_of);
  EXPECT_EQ(weighed.size(), 10U) << "two boundaries at five places";
  ASSERT_TRUE(best);
  EXPECT_EQ(best->stages[2].nodes.size(), 4U);
}

}  // namespace
}  // namespace kerf::partitioner
