// Stages of replicas: the best of a chain beside all that there are, priced by the longer of
// computing and the sum of weights.
#include "partitioner/cuts/replicated_stages.h"

#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <set>

#include "partitioner/graph_plan.h"
#include "tests/partitioner/random_graphs.h"

namespace kerf::partitioner {
namespace {

using testing::chain_of;

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

}  // namespace
}  // namespace kerf::partitioner
