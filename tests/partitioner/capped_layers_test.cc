#include "partitioner/cuts/capped_layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "partitioner/graph_plan.h"
#include "tests/partitioner/every_division.h"
#include "tests/partitioner/random_graphs.h"

namespace kerf::partitioner {
namespace {

using testing::random_graph;

constexpr int kStages = 3;
constexpr size_t kMostPlans = 20'000;

// All divisions of a graph into stages that are alike, by price_division() alone.
class EveryPlan {
 public:
  explicit EveryPlan(const CostGraph& graph) {
    for (const auto& stage_of :
         testing::every_division(testing::partings_of(graph), kStages, kMostPlans)) {
      plans_.push_back(price_division(graph, {testing::nodes_of_stages(stage_of, kStages)}));
      memory_.push_back(plans_.back().memory());
    }
  }

  size_t size() const { return plans_.size(); }
  double bottleneck(double cap) const { return least(cap, kNever, &GraphPlan::bottleneck); }
  double bytes(double cap, double bottleneck) const {
    return least(cap, bottleneck, &GraphPlan::cut_bytes);
  }
  double memory() const { return std::ranges::min(memory_); }
  // Which so large a part of them is within.
  double cap(double part) const {
    std::vector<double> sorted = memory_;
    std::ranges::sort(sorted);
    return sorted[static_cast<size_t>(part * static_cast<double>(sorted.size() - 1))];
  }

 private:
  double least(double cap, double bottleneck, double GraphPlan::*figure) const {
    double result = kNever;
    for (size_t i = 0; i < plans_.size(); ++i)
      if (memory_[i] <= cap && plans_[i].bottleneck <= bottleneck * (1 + kBetter))
        result = std::min(result, plans_[i].*figure);
    return result;
  }

  std::vector<GraphPlan> plans_;
  std::vector<double> memory_;  // of the fullest stage of each
};

LayerSearch search_of(const CostGraph& graph, double slack) {
  return {graph, {{0, 0, 0}, {1, 1, 1}, {kNever, kNever, kNever}}, slack};
}

// As if only the finished division showed what its stages hold.
CappedLayers::Over above(double cap) {
  return [cap](const LayerDivision& division) {
    std::vector<double> over;
    for (const double bytes : division.memory) over.push_back(bytes - cap);
    return over;
  };
}

// The best without a cap, where that fits. Else of few divisions all are looked at, so that the
// certificate is of those that fit: no lower bottleneck, and within the slack of it no fewer bytes.
TEST(CappedLayers, AreTheBestOfFewDivisionsAndSayWhatIsProved) {
  std::mt19937 random(7);
  std::map<bool, int> by_whether_the_best_fits;
  for (int round = 0; round < 60; ++round) {
    const CostGraph graph = random_graph(
        random, {.nodes = 8, .leaving = round % 2 == 0, .memory = true, .shared = true});
    const EveryPlan every(graph);
    const double slack = round % 3 == 0 ? 0 : 0.3;
    for (const double part : {0.1, 0.4, 1.0}) {
      LayerSearch search = search_of(graph, slack);
      const auto few = search.few_divisions(search.limits());
      if (!few) continue;
      EXPECT_EQ(few->size(), every.size());
      const double cap = every.cap(part);
      const auto found = CappedLayers(search, above(cap)).best();
      ASSERT_TRUE(found);
      EXPECT_LE(std::ranges::max(found->memory), cap);
      const auto uncapped = search_of(graph, slack).best();
      const bool fits = std::ranges::max(uncapped->memory) <= cap;
      const double least = every.bottleneck(fits ? kNever : cap);
      EXPECT_NEAR(search.bound().value, least, 1e-9);
      EXPECT_NEAR(found->bytes, every.bytes(cap, least * (1 + slack)), 1e-9);
      EXPECT_EQ(search.bound().witness.find("has fewer bytes") != std::string::npos, slack > 0);
      ++by_whether_the_best_fits[fits];
    }
  }
  EXPECT_GT(by_whether_the_best_fits[false], 20);
  EXPECT_GT(by_whether_the_best_fits[true], 60);
}

TEST(CappedLayers, AreNoneWhereNoneFitsAndThenTheLeastOfAll) {
  std::mt19937 random(8);
  int few = 0;
  for (int round = 0; round < 30; ++round) {
    const CostGraph graph = random_graph(random, {.nodes = 8, .memory = true, .shared = true});
    const EveryPlan every(graph);
    LayerSearch search = search_of(graph, 0);
    if (!search.few_divisions(search.limits())) continue;
    ++few;
    const double cap = every.memory() - 0.0625;
    CappedLayers capped(search, above(cap));
    EXPECT_FALSE(capped.best());
    const auto peaks = [](const LayerDivision& division, double) { return division.memory; };
    const auto least = capped.least(peaks, cap);
    ASSERT_TRUE(least);
    EXPECT_NEAR(std::ranges::max(least->memory), every.memory(), 1e-9);
  }
  EXPECT_GT(few, 20);
}

}  // namespace
}  // namespace kerf::partitioner
