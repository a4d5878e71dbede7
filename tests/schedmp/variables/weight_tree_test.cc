#include "schedmp/variables/weight_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

// A plain list with the same leaves.
using Leaves = std::map<int64_t, double>;

double total(const Leaves& weights, double floor) {
  double sum = 0;
  for (const auto& [leaf, weight] : weights) sum += weight + floor;
  return sum;
}

// How often the tree answers each leaf over all shares that lie in the middle of a unit. Leaves
// are whole numbers, so that this is exact.
std::map<int64_t, double> answers(const WeightTree& tree, double units, double floor) {
  std::map<int64_t, double> counts;
  for (double unit = 0.5; unit < units; ++unit) ++counts[tree.at(unit / units, floor).value()];
  return counts;
}

TEST(WeightTree, AnswersEachLeafForAsMuchAsItWeighs) {
  std::mt19937 chance(3);
  for (const int64_t leaves : {1, 2, 3, 5, 8, 13, 64, 100})
    for (const double floor : {0.0, 1.0, 3.0}) {
      WeightTree tree(leaves);
      Leaves list;
      for (int change = 0; change < 300; ++change) {
        const auto leaf = static_cast<int64_t>(chance() % static_cast<uint64_t>(leaves));
        const auto weight = static_cast<double>(chance() % 6);
        if (chance() % 3 == 0) {
          tree.remove(leaf);
          list.erase(leaf);
        } else {
          tree.set(leaf, weight);
          list[leaf] = weight;
        }
        ASSERT_EQ(tree.count(), std::ssize(list));
        ASSERT_EQ(tree.sum(), total(list, 0));
        if (change % 30 != 0) continue;
        std::map<int64_t, double> expected;
        for (const auto& [at, each] : list)
          if (each + floor > 0) expected[at] = each + floor;
        ASSERT_EQ(answers(tree, total(list, floor), floor), expected) << leaves << " leaves";
      }
    }
}

// Behind a million updates of all magnitudes the tree is what it would be if it were new.
TEST(WeightTree, DoesNotDrift) {
  constexpr int64_t kLeaves = 1000;
  std::mt19937 chance(5);
  WeightTree tree(kLeaves), fresh(kLeaves);
  std::vector<double> last(kLeaves);
  for (int update = 0; update < 1'000'000; ++update) {
    const auto leaf = static_cast<int64_t>(chance() % kLeaves);
    const double weight =
        std::ldexp(static_cast<double>(chance()), static_cast<int>(chance() % 600) - 300);
    tree.set(leaf, weight);
    last[static_cast<size_t>(leaf)] = weight;
  }
  for (int64_t leaf = 0; leaf < kLeaves; ++leaf) {
    last[static_cast<size_t>(leaf)] *= 1e-200;
    tree.set(leaf, last[static_cast<size_t>(leaf)]);
    fresh.set(leaf, last[static_cast<size_t>(leaf)]);
  }
  EXPECT_EQ(tree.sum(), fresh.sum());
  for (double share = 0; share < 1; share += 1.0 / 1024)
    EXPECT_EQ(tree.at(share, 0), fresh.at(share, 0));
  for (int64_t leaf = 0; leaf < kLeaves; ++leaf) tree.remove(leaf);
  EXPECT_EQ(tree.sum(), 0);
  EXPECT_EQ(tree.at(0.5, 1), std::nullopt);
}

// Shares at both ends, and weights that sums round away.
TEST(WeightTree, NeverAnswersALeafThatWeighsNothing) {
  const double below_one = 1 - 0x1p-53;
  std::mt19937 chance(9);
  for (int round = 0; round < 3000; ++round) {
    const auto leaves = static_cast<int64_t>(1 + chance() % 40);
    WeightTree tree(leaves);
    Leaves list;
    for (int64_t leaf = 0; leaf < leaves; ++leaf)
      if (chance() % 2 == 0) {
        const double weight = chance() % 2 == 0
                                  ? 0
                                  : std::ldexp(1 + 0x1p-30 * static_cast<double>(chance()),
                                               static_cast<int>(chance() % 120) - 60);
        tree.set(leaf, weight);
        list[leaf] = weight;
      }
    for (const double share : {0.0, 1e-300, 0.5, 0x1.fffffep-1, below_one}) {
      const auto leaf = tree.at(share, 0);
      ASSERT_EQ(leaf.has_value(), total(list, 0) > 0);
      if (leaf) {
        ASSERT_TRUE(list.contains(*leaf) && list[*leaf] > 0) << share;
      }
      const auto with_floor = tree.at(share, 1e-12);
      ASSERT_EQ(with_floor.has_value(), !list.empty());
      if (with_floor) {
        ASSERT_TRUE(list.contains(*with_floor)) << share;
      }
    }
  }
}

TEST(WeightTree, RefusesWhatIsNoWeight) {
  WeightTree tree(2);
  tree.set(1, 5);
  for (const double weight : {-1.0, -1e-300, 1e281, std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(tests::error_of([&] { tree.set(0, weight); })) << weight;
    EXPECT_TRUE(tests::error_of([&] { tree.at(0.5, weight); })) << weight;
  }
  EXPECT_TRUE(tests::error_of([&] { tree.set(2, 1); }));
  EXPECT_TRUE(tests::error_of([&] { tree.at(1, 0); }));
  EXPECT_EQ(tree.sum(), 5);
}

TEST(WeightTree, HoldsTheGreatestWeights) {
  WeightTree tree(1 << 16);
  for (int64_t leaf = 0; leaf < 1 << 16; ++leaf) tree.set(leaf, WeightTree::kMost);
  EXPECT_LT(tree.sum(), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(tree.at(0.5, WeightTree::kMost));
}

}  // namespace
}  // namespace kerf::schedmp
