// The layer cut of cost graphs: acyclic whatever the graph, as good as trying every division of its
// orders, never below its bound, within the cap.
#include "partitioner/graph_plan.h"

#include <gmock/gmock.h>

#include "partitioner/cuts/layer_search.h"
#include "partitioner/orders.h"
#include "tests/partitioner/every_division.h"
#include "tests/partitioner/random_graphs.h"
#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

using testing::complaint;
using ::testing::ElementsAre;
using testing::GraphKinds;
using ::testing::HasSubstr;
using testing::random_graph;

constexpr size_t kMostDivisions = 10'000;

std::vector<GraphKinds> all_kinds(int nodes) {
  std::vector<GraphKinds> result;
  for (const bool leaving : {false, true})
    for (const bool backward : {false, true})
      for (const bool colours : {false, true})
        result.push_back({nodes, leaving, backward, colours, true});
  return result;
}

double total_bytes(const GraphPlan& plan) {
  double bytes = 0;
  for (const GraphStage& stage : plan.stages) bytes += stage.bytes_in;
  return bytes;
}

bool within(const GraphPlan& plan, std::optional<int64_t> memory) {
  return !memory || std::all_of(plan.stages.begin(), plan.stages.end(), [&](const GraphStage& s) {
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
    plans.push_back(price_division(graph, testing::nodes_of_stages(stage_of, workers)));
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

// Boundaries at every place, on lines longer than what can be tried out.
TEST(Line, ItsSweepsAgreeWithLookingAtSegments) {
  std::mt19937 random(17);
  for (const GraphKinds& kinds : all_kinds(24)) {
    const CostGraph graph = random_graph(random, kinds);
    const Units units = units_of(graph);
    const Line line(units, topological_orders(units).back());
    const int n = line.size();
    std::vector<double> price(static_cast<size_t>(n));
    std::vector<double> bytes(static_cast<size_t>(n));
    for (int end = 1; end <= n; ++end) {
      for (const Line::Change& change : line.changes(end - 1))
        for (int i = change.first; i <= change.last; ++i) {
          price[static_cast<size_t>(i)] += change.price;
          bytes[static_cast<size_t>(i)] += change.bytes;
        }
      for (int i = 0; i < end; ++i) {
        EXPECT_NEAR(line.work(0, i, end) + price[static_cast<size_t>(i)], line.price(0, i, end),
                    1e-9);
        EXPECT_NEAR(bytes[static_cast<size_t>(i)], line.bytes(i, end), 1e-9);
      }
    }
    const double limit = line.price(0, 0, n) / 3;
    const std::vector<int> by_memory = line.ends_by_memory(1, limit);
    const std::vector<int> by_price =
        line.prices_grow() ? line.ends_by_price(0, limit) : std::vector<int>();
    for (int i = 0; i < n; ++i)
      for (int j = i + 1; j <= n; ++j) {
        EXPECT_EQ(line.memory(1, i, j) <= limit, j <= by_memory[static_cast<size_t>(i)]);
        if (line.prices_grow()) {
          EXPECT_EQ(line.price(0, i, j) <= limit, j <= by_price[static_cast<size_t>(i)]);
        }
      }
  }
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

//   a ──> b ──> a'   with a and a' of one colour: b lies between them, and stays, too
TEST(Units, WhatLiesBetweenNodesOfOneColourStaysWithThem) {
  CostFigures figures;
  figures.nodes = {{"a", 5, false}, {"b", -1, false}, {"a'", 5, false}, {"c", -1, false}};
  figures.work = {{{1, 0}, {2, 0}, {3, 0}, {4, 0}}};
  figures.values = {{0, {1}, 1, 1, 0, 0}, {1, {2}, 1, 1, 0, 0}, {2, {3}, 1, 1, 0, 0}};
  const Units units = units_of(CostGraph(figures));
  EXPECT_THAT(units.members, ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3)));
  EXPECT_THAT(units.work[0], ElementsAre(6, 4));
  ASSERT_EQ(units.values.size(), 1U);
  EXPECT_THAT(units.values[0].readers, ElementsAre(1));
}

TEST(TopologicalOrders, AreDistinctAndRespectEveryEdge) {
  std::mt19937 random(19);
  size_t most = 0;
  for (int round = 0; round < 20; ++round) {
    const Units units = units_of(random_graph(random, {12, false, round % 2 == 0, false, false}));
    const auto orders = topological_orders(units);
    ASSERT_FALSE(orders.empty());
    most = std::max(most, orders.size());
    for (size_t i = 0; i < orders.size(); ++i) {
      std::vector<int> position(static_cast<size_t>(units.size()), -1);
      for (size_t p = 0; p < orders[i].size(); ++p)
        position[static_cast<size_t>(orders[i][p])] = static_cast<int>(p);
      EXPECT_THAT(position, ::testing::Each(::testing::Ge(0)));
      const auto [begin, end] = boost::edges(units.before);
      for (auto edge = begin; edge != end; ++edge)
        EXPECT_LT(position[boost::source(*edge, units.before)],
                  position[boost::target(*edge, units.before)]);
      for (size_t j = 0; j < i; ++j) EXPECT_NE(orders[i], orders[j]);
    }
  }
  EXPECT_GT(most, 1U);
}

TEST(Cycles, AreFound) {
  EXPECT_TRUE(is_acyclic(3, {{0, 1}, {1, 2}, {0, 2}}));
  EXPECT_FALSE(is_acyclic(3, {{0, 1}, {1, 2}, {2, 0}}));
  EXPECT_FALSE(is_acyclic(1, {{0, 0}}));
  EXPECT_TRUE(is_acyclic(0, {}));
}

TEST(Cycles, OfStagesAreFoundInEitherHalf) {
  //   forward a ──> b ──> c, backward c' ──> b' ──> a'
  CostFigures figures;
  figures.nodes = {{"a", -1, false}, {"b", -1, false}, {"c", -1, false},
                   {"c'", -1, true}, {"b'", -1, true}, {"a'", -1, true}};
  figures.work = {std::vector<Work>(6)};
  figures.values = {{0, {1}, 1, 1, 0, 0},
                    {1, {2}, 1, 1, 0, 0},
                    {2, {3}, 1, 1, 0, 0},
                    {3, {4}, 1, 1, 0, 0},
                    {4, {5}, 1, 1, 0, 0}};
  const CostGraph graph(figures);
  EXPECT_TRUE(has_acyclic_stages(graph, {0, 0, 1, 1, 1, 0}, 2));
  EXPECT_TRUE(has_acyclic_stages(graph, {0, 0, 0, 1, 1, 0}, 2));
  EXPECT_FALSE(has_acyclic_stages(graph, {0, 1, 0, 0, 0, 0}, 2));
  EXPECT_FALSE(has_acyclic_stages(graph, {0, 0, 0, 0, 1, 0}, 2));
  EXPECT_EQ(cut_bytes(graph, {0, 1, 1, 0, 1, 0}), 1);  // a to b; the rest is backward
}

}  // namespace
}  // namespace kerf::partitioner
