// Units of cost graphs: what stays together, orders of them, lines along those, and coarser ones.
#include "partitioner/units.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "partitioner/coarse_units.h"
#include "partitioner/cuts/line.h"
#include "partitioner/graph_plan.h"
#include "partitioner/orders.h"
#include "tests/partitioner/random_graphs.h"

namespace kerf::partitioner {
namespace {

using testing::all_kinds;
using testing::chain_of;
using ::testing::ElementsAre;
using testing::GraphKinds;
using testing::large_graph;
using testing::random_graph;

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
    if (!line.prices_grow()) continue;
    const double limit = line.price(0, 0, n) / 3;
    const std::vector<int> by_price = line.ends_by_price(0, limit);
    for (int i = 0; i < n; ++i)
      for (int j = i + 1; j <= n; ++j)
        EXPECT_EQ(line.price(0, i, j) <= limit, j <= by_price[static_cast<size_t>(i)]);
  }
}

// What several units hold counts once, some units are above the limit by themselves, and at one
// that is below 0 all are.
TEST(Line, ItsSegmentsEndWhereMemoryDoes) {
  std::mt19937 random(29);
  for (GraphKinds kinds : all_kinds(24)) {
    kinds.shared = true;
    const CostGraph graph = random_graph(random, kinds);
    const Units units = units_of(graph);
    const Line line(units, topological_orders(units).back());
    const int n = line.size();
    for (const int micro_batches : {1, 3})
      for (const double share : {-0.1, 0.0, 0.02, 0.05, 0.3, 1.0}) {
        const double limit = share * line.memory(micro_batches, 0, n);
        const std::vector<int> ends = line.ends_by_memory(micro_batches, limit);
        for (int i = 0; i < n; ++i)
          for (int j = i + 1; j <= n; ++j)
            ASSERT_EQ(line.memory(micro_batches, i, j) <= limit, j <= ends[static_cast<size_t>(i)])
                << share << " of all, from " << i << " to " << j;
      }
  }
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

}  // namespace
}  // namespace kerf::partitioner
