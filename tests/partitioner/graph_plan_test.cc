// The layer cut of cost graphs: acyclic whatever the graph, as good as trying every division of its
// orders, never below its bound, within the cap.
#include "partitioner/graph_plan.h"

#include <gmock/gmock.h>

#include "partitioner/checked_bound.h"
#include "partitioner/coarse_units.h"
#include "partitioner/cuts/trees.h"
#include "tests/partitioner/every_division.h"
#include "tests/partitioner/random_graphs.h"
#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

using testing::all_kinds;
using testing::complaint;
using testing::GraphKinds;
using ::testing::HasSubstr;
using testing::large_graph;
using ::testing::Not;
using testing::random_graph;

constexpr size_t kMostDivisions = 10'000;

double total_bytes(const GraphPlan& plan) {
  double bytes = 0;
  for (const GraphWorker& stage : plan.workers) bytes += stage.bytes_in;
  return bytes;
}

bool within(const GraphPlan& plan, std::optional<int64_t> memory) {
  return !memory ||
         std::all_of(plan.workers.begin(), plan.workers.end(), [&](const GraphWorker& s) {
           return s.memory <= static_cast<double>(*memory);
         });
}

struct Best {
  double bottleneck = kNever;
  double bytes = kNever;
};

// By trying every division there is, each priced from the graph alone.
Best best_of_all(const CostGraph& graph, int workers, std::optional<int64_t> memory,
                 double slack = 0) {
  std::vector<GraphPlan> plans;
  for (const auto& stage_of :
       testing::every_division(testing::partings_of(graph), workers, kMostDivisions)) {
    plans.push_back(price_division(graph, {testing::nodes_of_stages(stage_of, workers)}));
    if (!within(plans.back(), memory)) plans.pop_back();
  }
  Best best;
  for (const GraphPlan& plan : plans) best.bottleneck = std::min(best.bottleneck, plan.bottleneck);
  for (const GraphPlan& plan : plans)
    if (plan.bottleneck <= best.bottleneck * (1 + slack) + 1e-9)
      best.bytes = std::min(best.bytes, total_bytes(plan));
  return best;
}

void expect_colours_together(const CostGraph& graph, const GraphPlan& plan) {
  for (int node = 0; node < graph.size(); ++node)
    for (int other = 0; other < node; ++other)
      if (graph.node(node).colour >= 0 && graph.node(node).colour == graph.node(other).colour) {
        EXPECT_EQ(plan.stage_of[static_cast<size_t>(node)],
                  plan.stage_of[static_cast<size_t>(other)]);
      }
}

TEST(GraphPlan, IsAcyclicAndTheBestOfEveryDivision) {
  std::mt19937 random(7);
  for (int round = 0; round < 8; ++round)
    for (const GraphKinds& kinds : all_kinds(7))
      for (const int workers : {1, 2, 3}) {
        const CostGraph graph = random_graph(random, kinds);
        if (units_of(graph).size() < workers) continue;
        const auto plan = std::get<GraphPlan>(plan_graph(graph, {workers, std::nullopt}));
        EXPECT_TRUE(plan.acyclic);
        expect_colours_together(graph, plan);
        const Best best = best_of_all(graph, workers, std::nullopt);
        EXPECT_NEAR(plan.bottleneck, best.bottleneck, 1e-9);
        EXPECT_NEAR(plan.bound.value, best.bottleneck, 1e-9);
        EXPECT_NEAR(total_bytes(plan), best.bytes, 1e-9);
      }
}

TEST(GraphPlan, SlackBuysTheFewestBytesWithinIt) {
  std::mt19937 random(23);
  int fewer = 0;
  for (int round = 0; round < 8; ++round)
    for (const GraphKinds& kinds : all_kinds(7)) {
      const CostGraph graph = random_graph(random, kinds);
      if (units_of(graph).size() < 3) continue;
      GraphRequest request{3, std::nullopt};
      const auto tight = std::get<GraphPlan>(plan_graph(graph, request));
      request.slack = 0.25;
      const auto plan = std::get<GraphPlan>(plan_graph(graph, request));
      EXPECT_LE(plan.bottleneck, 1.25 * tight.bottleneck + 1e-9);
      EXPECT_NEAR(plan.bound.value, tight.bottleneck, 1e-9);
      EXPECT_NEAR(total_bytes(plan), best_of_all(graph, 3, std::nullopt, 0.25).bytes, 1e-9);
      if (!graph.has_backward()) {
        EXPECT_THAT(plan.bound.witness, HasSubstr("; none within 1.25 times it has fewer bytes"));
        EXPECT_THAT(tight.bound.witness, Not(HasSubstr("bytes")));
        request.effort.visits = 1;  // too little for a proof
        const auto hasty = std::get<GraphPlan>(plan_graph(graph, request));
        EXPECT_THAT(hasty.bound.witness, Not(HasSubstr("bytes")));
      }
      fewer += total_bytes(plan) < total_bytes(tight) ? 1 : 0;
    }
  EXPECT_GT(fewer, 10);
}

TEST(GraphPlan, KeepsWithinTheCapOrNamesTheLeastThatWouldDo) {
  std::mt19937 random(11);
  int fitted = 0;
  int refused = 0;
  for (int round = 0; round < 20; ++round)
    for (const GraphKinds& kinds : all_kinds(6)) {
      const CostGraph graph = random_graph(random, kinds);
      const int workers = 2;
      if (units_of(graph).size() < workers) continue;
      const int64_t cap = std::uniform_int_distribution<int64_t>(10, 80)(random);
      const Best best = best_of_all(graph, workers, cap);
      const auto answer = plan_graph(graph, {workers, cap});
      if (const auto* plan = std::get_if<GraphPlan>(&answer)) {
        ++fitted;
        EXPECT_TRUE(within(*plan, cap));
        EXPECT_NEAR(plan->bottleneck, best.bottleneck, 1e-9);
        continue;
      }
      ++refused;
      EXPECT_EQ(best.bottleneck, kNever);
      const auto& no = std::get<Infeasible>(answer);
      EXPECT_EQ(no.cap, cap);
      EXPECT_EQ(best_of_all(graph, workers, cap + no.over - 1).bottleneck, kNever);
      EXPECT_LT(best_of_all(graph, workers, cap + no.over).bottleneck, kNever);
    }
  EXPECT_GT(fitted, 20);
  EXPECT_GT(refused, 20);
}

// A chain that holds 10, 5.01 and 1 bytes: its best halves take 15.01 and 1, its least 10 and 6.01.
TEST(GraphPlan, OfFractionsTheCapIsTheWholeNumberThatHoldsThem) {
  CostFigures figures;
  figures.name = "chain";
  figures.nodes = {{"a", -1, false}, {"b", -1, false}, {"c", -1, false}};
  figures.work = {{{1, 0}, {1, 0}, {2, 0}}};
  figures.values = {{0, {1}, 1, 1, 0, 0}, {1, {2}, 1, 1, 0, 0}};
  figures.held = {{{0}, 10, 0}, {{1}, 5.01, 0}, {{2}, 1, 0}};
  const CostGraph graph(figures);
  const auto no = std::get<Infeasible>(plan_graph(graph, {2, 5}));
  EXPECT_EQ(no.cap + no.over, 10);
  EXPECT_EQ(no.smallest_change, "--memory 10");
  EXPECT_DOUBLE_EQ(std::get<GraphPlan>(plan_graph(graph, {2, 10})).bottleneck, 3);
  EXPECT_DOUBLE_EQ(std::get<GraphPlan>(plan_graph(graph, {2, 15})).bottleneck, 3);
  EXPECT_DOUBLE_EQ(std::get<GraphPlan>(plan_graph(graph, {2, 16})).bottleneck, 2);
}

TEST(GraphPlan, RefusesMoreWorkersThanThereIsToPart) {
  CostFigures figures;
  figures.name = "pair";
  figures.nodes = {{"a", 0, false}, {"b", 0, false}};
  figures.work = {{{1, 0}, {1, 0}}};
  figures.values = {{0, {1}, 4, 4, 0, 0}};
  const CostGraph graph(figures);
  EXPECT_THAT(complaint(
                  [&] {
                    plan_graph(graph, {2, std::nullopt});
                  },
                  ErrorCode::kInfeasible),
              HasSubstr("1 groups"));
  EXPECT_THAT(complaint([&] { plan_graph(graph, {0, std::nullopt}); }), HasSubstr("--workers 0"));
}

TEST(GraphPlan, SaysThatThereIsNoWorkWhereThereIsNone) {
  CostFigures figures;
  figures.name = "idle";
  figures.nodes = {{"a", -1, false}, {"b", -1, false}};
  figures.work = {{{0, 0}, {0, 0}}};
  figures.values = {{0, {1}, 0, 0, 0, 0}};
  const CostGraph graph(figures);
  for (const int workers : {1, 2}) {
    const auto plan = std::get<GraphPlan>(plan_graph(graph, {workers, std::nullopt}));
    EXPECT_EQ(plan.bottleneck, 0);
    EXPECT_EQ(plan.bound.witness, "there is no work");
  }
}

TEST(GraphPlan, OfManyNodesKeepsItsPromises) {
  std::mt19937 random(43);
  const CostGraph graph = large_graph(random, kMostFineUnits + 5'000);
  const auto free = std::get<GraphPlan>(plan_graph(graph, {8, std::nullopt}));
  EXPECT_TRUE(free.acyclic);
  EXPECT_LE(free.bottleneck, 1.02 * free.bound.value);
  const auto half = static_cast<int64_t>(free.memory() / 2);
  const auto no = std::get<Infeasible>(plan_graph(graph, {8, half}));
  const auto within = std::get<GraphPlan>(plan_graph(graph, {8, no.cap + no.over}));
  EXPECT_LE(within.memory(), static_cast<double>(no.cap + no.over));
  EXPECT_LE(static_cast<double>(no.cap + no.over), 1.02 * free.memory());
  GraphRequest shared{8, std::nullopt};
  shared.stages_per_worker = 2;
  const auto several = std::get<GraphPlan>(plan_graph(graph, shared));
  EXPECT_TRUE(several.acyclic);
  EXPECT_LE(several.bottleneck, free.bottleneck);
}

// Figures whose rounding exceeds what they are added to prove nothing by ideals.
TEST(GraphPlan, ProvesNothingWhereRoundingDecides) {
  CostFigures figures;
  figures.name = "spread";
  figures.work.resize(1);
  for (int node = 0; node < 8; ++node) {
    figures.nodes.push_back({std::to_string(node), -1, false});
    figures.work[0].push_back({0.01 * (node % 3 + 1), 0});
    if (node > 0) figures.values.push_back({node - 1, {node}, 1, 1, node == 4 ? 1e15 : 0.003, 0});
  }
  const auto plan =
      std::get<GraphPlan>(plan_graph(CostGraph(std::move(figures)), {3, std::nullopt}));
  EXPECT_LT(plan.bottleneck, 1);
  EXPECT_THAT(plan.bound.witness, ::testing::Not(HasSubstr("ideal")));
}

TEST(CheckedBound, AboveItsPlanIsABugBeyondRounding) {
  EXPECT_EQ(checked_bound({1 + 1e-9, "why"}, 1, "graph").value, 1);
  EXPECT_EQ(checked_bound({0.5, "why"}, 1, "graph").value, 0.5);
  EXPECT_THAT(complaint(
                  [] {
                    checked_bound({1.01, "why"}, 1, "graph");
                  },
                  ErrorCode::kInternal),
              HasSubstr("why"));
}

}  // namespace
}  // namespace kerf::partitioner
