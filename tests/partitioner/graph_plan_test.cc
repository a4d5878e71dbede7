// The layer cut of cost graphs: acyclic whatever the graph, as good as trying every division of its
// orders, never below its bound, within the cap.
#include "partitioner/graph_plan.h"

#include <gmock/gmock.h>

#include <functional>
#include <numeric>
#include <set>

#include "partitioner/checked_bound.h"
#include "partitioner/coarse_units.h"
#include "partitioner/cuts/layer_search.h"
#include "partitioner/cuts/replicated_stages.h"
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
using ::testing::Not;
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

CostGraph chain_of(const std::vector<double>& work, double enter = 0) {
  CostFigures figures;
  figures.name = "chain";
  figures.work.resize(1);
  for (size_t node = 0; node < work.size(); ++node) {
    figures.nodes.push_back({std::to_string(node), -1, false});
    figures.work[0].push_back({work[node], 0});
    figures.held.push_back({{static_cast<int>(node)}, work[node], 0});
    if (node > 0)
      figures.values.push_back(
          {static_cast<int>(node) - 1, {static_cast<int>(node)}, 1, 1, enter, 0});
  }
  return CostGraph(std::move(figures));
}

// What weighs nothing joins without end, were it not for the number of units.
TEST(JoinedUnits, OfLightNodesAreStillManyMoreThanStages) {
  std::vector<double> heavy(kMostFineUnits + 1, 0.01);
  heavy[7] = 1e6;
  for (const auto& work : {std::vector<double>(kMostFineUnits + 1, 0), heavy})
    for (const int workers : {2, 64}) {
      const auto plan = std::get<GraphPlan>(plan_graph(chain_of(work), {workers, std::nullopt}));
      EXPECT_EQ(static_cast<int>(plan.workers.size()), workers);
      EXPECT_TRUE(plan.acyclic);
      EXPECT_NEAR(plan.bottleneck, *std::max_element(work.begin(), work.end()), 1);
    }
}

// Layers of nodes that read some of the layer before.
CostGraph large_graph(std::mt19937& random, int nodes) {
  CostFigures figures;
  figures.name = "large";
  figures.work.resize(1);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  figures.values.resize(static_cast<size_t>(nodes));
  for (int node = 0; node < nodes; ++node) {
    figures.nodes.push_back({std::to_string(node), -1, false});
    figures.work[0].push_back({1.0 * draw(0, 9), 0});
    figures.held.push_back({{node}, 1.0 * draw(0, 9), 0});
    CostValue& value = figures.values[static_cast<size_t>(node)];
    value.producer = node;
    value.bytes = value.forward_bytes = draw(1, 9);
    for (int reader = node + 1; reader <= std::min(node + 6, nodes - 1); ++reader)
      if (draw(0, 2) == 0) value.readers.push_back(reader);
  }
  std::erase_if(figures.values, [](const CostValue& value) { return value.readers.empty(); });
  return CostGraph(std::move(figures));
}

TEST(JoinedUnits, HaveNoCycleAndAllThatTheirsHave) {
  std::mt19937 random(41);
  const CostGraph graph = large_graph(random, kMostFineUnits + 5'000);
  const Units units = units_of(graph);
  const double share = kCoarseShare / 8;
  for (const CoarseUnits& coarse : {join_neighbours(units, share), join_chains(units, share)}) {
    Edges edges;
    const auto [begin, end] = boost::edges(coarse.units.before);
    for (auto edge = begin; edge != end; ++edge)
      edges.emplace_back(boost::source(*edge, coarse.units.before),
                         boost::target(*edge, coarse.units.before));
    EXPECT_TRUE(is_acyclic(coarse.units.size(), edges));
    EXPECT_LT(coarse.units.size(), units.size());
    const auto sum = [](const std::vector<double>& all) {
      return std::accumulate(all.begin(), all.end(), 0.0);
    };
    const double work = sum(units.work[0]);
    EXPECT_NEAR(sum(coarse.units.work[0]), work, 1e-9 * work);
    const double most = *std::max_element(coarse.units.work[0].begin(), coarse.units.work[0].end());
    EXPECT_LE(most, share * work);
    EXPECT_LE(coarse.units.held.size(), static_cast<size_t>(coarse.units.size()));
    double held = 0;
    double of_units = 0;
    for (const UnitHeld& each : coarse.units.held) held += each.fixed;
    for (const UnitHeld& each : units.held) of_units += each.fixed;
    EXPECT_NEAR(held, of_units, 1e-9 * held);
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

// Beside every division of the chain into stages and every number of replicas.
double best_replicated(const CostGraph& graph, int workers, double memory) {
  const Units units = units_of(graph);
  double best = std::numeric_limits<double>::infinity();
  ReplicatedStages division;
  const std::function<void(int, int)> go = [&](int begin, int left) {
    if (begin == graph.size() && left == 0) {
      const GraphPlan plan = price_replicated(graph, division);
      if (plan.memory() <= memory) best = std::min(best, plan.bottleneck);
      return;
    }
    for (int end = begin + 1; end <= graph.size(); ++end)
      for (int replicas = 1; replicas <= left; ++replicas) {
        std::vector<int>& nodes = division.stages.emplace_back();
        for (int node = begin; node < end; ++node) nodes.push_back(node);
        division.replicas.push_back(replicas);
        go(end, left - replicas);
        division.stages.pop_back();
        division.replicas.pop_back();
      }
  };
  go(0, workers);
  return best;
}

TEST(ReplicatedStages, AreTheBestOfAChain) {
  std::mt19937 random(47);
  int replicated = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<double> work;
    for (int node = 0; node < 6; ++node) work.push_back(static_cast<double>(random() % 9 + 1));
    const CostGraph graph = chain_of(work, 0.2);
    for (const int workers : {2, 4}) {
      GraphRequest request{workers, std::nullopt};
      request.replicates = true;
      const auto plan = std::get<GraphPlan>(plan_graph(graph, request));
      EXPECT_EQ(static_cast<int>(plan.workers.size()), workers);
      EXPECT_NEAR(plan.bottleneck, best_replicated(graph, workers, 1e300), 1e-9);
      EXPECT_LE(plan.bound.value, plan.bottleneck);
      EXPECT_EQ(std::set<int>(plan.stage_of.begin(), plan.stage_of.end()).size(),
                static_cast<size_t>(plan.workers.back().stages[0] + 1));
      replicated += plan.workers.back().stages[0] + 1 < workers;
      const auto layer = std::get<GraphPlan>(plan_graph(graph, {workers, std::nullopt}));
      EXPECT_LE(plan.bottleneck, layer.bottleneck);
      request.memory = static_cast<int64_t>(layer.memory());
      const auto capped = std::get<GraphPlan>(plan_graph(graph, request));
      EXPECT_LE(capped.memory(), static_cast<double>(*request.memory));
      EXPECT_NEAR(capped.bottleneck,
                  best_replicated(graph, workers, static_cast<double>(*request.memory)), 1e-9);
      request.memory = 1;
      EXPECT_TRUE(std::holds_alternative<Infeasible>(plan_graph(graph, request)));
    }
  }
  EXPECT_GT(replicated, 10);
}

// One node, three workers: each a third of it, and the sum of its weights.
TEST(ReplicatedStages, TakeTheLongerOfComputingAndTheSumOfWeights) {
  CostFigures figures;
  figures.name = "one";
  figures.unit = "ms";
  figures.nodes = {{"a"}, {"b"}};
  figures.work = {{{6, 3}, {0, 0}}};
  figures.values = {{0, {1}, 10, 10, 1, 0}};  // a tenth of a ms for a byte
  figures.held = {{{0}, 15, 6}};
  GraphRequest request{3, std::nullopt};
  request.replicates = true;
  const CostGraph graph(figures);
  const GraphPlan small = price_replicated(graph, {{{0, 1}}, {3}});
  EXPECT_DOUBLE_EQ(small.bottleneck, 3);  // 9 / 3, and 2 * 2 / 3 * 15 / 10 = 2
  EXPECT_DOUBLE_EQ(small.workers[2].memory, 17);
  figures.held = {{{0}, 45, 6}};
  EXPECT_DOUBLE_EQ(price_replicated(CostGraph(figures), {{{0, 1}}, {3}}).bottleneck, 6);
  EXPECT_DOUBLE_EQ(std::get<GraphPlan>(plan_graph(graph, request)).bottleneck, 3);
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
