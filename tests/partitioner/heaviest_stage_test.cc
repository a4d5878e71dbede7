// What stages with one unit cost at the least: beside every stage of small graphs.
#include "partitioner/cuts/heaviest_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "partitioner/cuts/growing_stage.h"
#include "tests/partitioner/random_graphs.h"

namespace kerf::partitioner {
namespace {

constexpr int64_t kMany = 1'000'000'000;

std::set<int> set_of(const Ideals& ideals, int ideal) {
  const std::vector<int> units = ideals.units_in(ideal);
  return {units.begin(), units.end()};
}

// Unit -> the least price of all stages that have it: what one ideal has more than another.
std::vector<double> least_prices(const Units& units, const Ideals& ideals) {
  std::vector<double> least(static_cast<size_t>(units.size()), kNever);
  GrowingStage stage(units);
  for (int from = 0; from < ideals.size(); ++from)
    for (int to = 0; to < ideals.size(); ++to) {
      const std::set<int> before = set_of(ideals, from);
      const std::set<int> all = set_of(ideals, to);
      if (!std::ranges::includes(all, before) || all == before) continue;
      stage.start(ideals.units_in(from));
      StageTotals totals;
      for (const int unit : ideals.units_in(to))
        if (!before.contains(unit)) totals = stage.add(unit, totals);
      for (const int unit : all)
        if (double& known = least[static_cast<size_t>(unit)]; !before.contains(unit))
          for (size_t type = 0; type < units.work.size(); ++type)
            known = std::min(known, totals.work[type] + totals.wire);
    }
  return least;
}

TEST(HeaviestStage, IsTheLeastOfAllStagesWithTheUnit) {
  std::mt19937 random(17);
  int dearer_than_alone = 0;
  std::vector<testing::GraphKinds> all = testing::all_kinds(7);
  all.push_back({.nodes = 7, .returns = true, .hosts = true});
  all.push_back({.nodes = 5, .leaving = true, .backward = true, .loose = true, .hosts = true});
  for (const testing::GraphKinds& kinds : all) {
    const CostGraph graph = testing::random_graph(random, kinds);
    const Units units = kinds.loose ? units_of(graph, BackwardWay::kFree) : units_of(graph);
    const auto ideals = Ideals::of(units, 20'000);
    ASSERT_TRUE(ideals);
    const std::vector<double> least = least_prices(units, *ideals);
    for (int unit = 0; unit < units.size(); ++unit) {
      const double must = least[static_cast<size_t>(unit)];
      const auto found = least_price_with(units, *ideals, unit, kNever, kMany);
      ASSERT_TRUE(found);
      EXPECT_NEAR(*found, must, 1e-9) << units.size() << " units, of " << unit;
      dearer_than_alone += must > units.work[0][static_cast<size_t>(unit)];
      EXPECT_EQ(least_price_with(units, *ideals, unit, must / 2, kMany), must / 2)
          << "none is below that";
    }
    EXPECT_FALSE(least_price_with(units, *ideals, units.size() - 1, kNever, 0)) << "no visits";
  }
  EXPECT_GT(dearer_than_alone, 0);
}

}  // namespace
}  // namespace kerf::partitioner
