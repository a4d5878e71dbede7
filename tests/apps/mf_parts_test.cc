// What matrix factorisation is made of, and how it is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "apps/mf/factor_rows.h"
#include "apps/mf/item_blocks.h"
#include "apps/mf/mf_messages.h"
#include "apps/mf/rank_ones.h"
#include "tests/apps/rank_one_sums.h"

namespace kerf::apps {
namespace {

TEST(FactorRows, StepsDownTheGradient) {
  for (const int rank : {1, 3, 4, 12, 17, 31, 40}) {
    const int stride = padded(rank);
    std::vector<float> p(static_cast<size_t>(stride)), q(p);
    draw_row(FactorSide::kUsers, 3, rank, 5, p);
    draw_row(FactorSide::kItems, 3, rank, 5, q);
    const std::vector<float> before = p, beside = q;
    EXPECT_NE(p, q);
    double product = 0;
    for (size_t k = 0; k < p.size(); ++k)
      product += static_cast<double>(p[k]) * static_cast<double>(q[k]);
    const std::vector<Rating> one = {{0, 0, 2}};
    const double error = 2 - product;
    EXPECT_NEAR(squared_errors(one, stride, p.data(), q.data()), error * error, 1e-5);
    EXPECT_NEAR(take_steps(one, {0.1F, 0.5F}, stride, p.data(), q.data()), error * error, 1e-5);
    for (size_t k = 0; k < p.size(); ++k) {
      const auto a = static_cast<double>(before[k]), b = static_cast<double>(beside[k]);
      EXPECT_NEAR(p[k], a + 0.1 * (error * b - 0.5 * a), 1e-6);
      EXPECT_NEAR(q[k], b + 0.1 * (error * a - 0.5 * b), 1e-6);
    }
  }
}

// Two users, two items: user 1 has rated both, user 0 the first.
TEST(RankOnes, AreTheMinimumAlongANumber) {
  const std::vector<Rating> cell = {{0, 0, 2}, {1, 0, 3}, {1, 1, -1}};
  std::vector<float> residuals = {2, 3, -1}, p = {0, 0}, q = {1, 2};
  tests::RankOneSums of_users, of_items;
  const RankOneSide users = of_users.of(p, 1, 0), items = of_items.of(q, 1, 0);
  const float lambda = 0.5F;
  for (int i = 0; i < 3; ++i) {
    sum_for_users(cell, residuals, lambda, users, items);
    take_minimum(users, 2);
    EXPECT_FLOAT_EQ(p[0], 2 * q[0] / (q[0] * q[0] + lambda));
    EXPECT_FLOAT_EQ(p[1], (3 * q[0] - q[1]) / (q[0] * q[0] + q[1] * q[1] + 2 * lambda));
    sum_for_items(cell, residuals, lambda, users, items);
    take_minimum(items, 2);
    EXPECT_FLOAT_EQ(q[0], (2 * p[0] + 3 * p[1]) / (p[0] * p[0] + p[1] * p[1] + 2 * lambda));
    EXPECT_FLOAT_EQ(q[1], -p[1] / (p[1] * p[1] + lambda));
    settle_residuals(cell, users, items, residuals);
    EXPECT_NEAR(residuals[0], 2 - p[0] * q[0], 1e-6);
    EXPECT_NEAR(residuals[1], 3 - p[1] * q[0], 1e-6);
    EXPECT_NEAR(residuals[2], -1 - p[1] * q[1], 1e-6);
  }
}

TEST(ItemBlocks, HaveEveryItemOnce) {
  const ItemBlocks blocks(103, 8, 4);
  std::vector<int> seen(103);
  for (int block = 0; block < 8; ++block) {
    EXPECT_GE(blocks.size(block), 12);
    EXPECT_LE(blocks.size(block), 13);
    for (int64_t i = 0; i < blocks.size(block); ++i) {
      const int64_t item = blocks.item(block, i);
      ++seen[static_cast<size_t>(item)];
      EXPECT_EQ(blocks.place(item), (ItemBlocks::Place{block, static_cast<int32_t>(i)}));
    }
  }
  EXPECT_THAT(seen, testing::Each(1));
  EXPECT_EQ(blocks.largest(), 13);
}

// So that every row is as likely to be in the cache as any other.
TEST(SampleOfRatings, IsAllOverTheRows) {
  for (const int64_t users : {1, 7, 1024})
    for (const int64_t items : {1, 3, 500}) {
      std::vector<int> of_user(static_cast<size_t>(users)), of_item(static_cast<size_t>(items));
      const auto sample = sample_of_ratings(10'000, users, items);
      ASSERT_EQ(sample.size(), 10'000);
      for (const Rating& each : sample) {
        ++of_user.at(static_cast<size_t>(each.user));
        ++of_item.at(static_cast<size_t>(each.item));
      }
      for (const auto* counts : {&of_user, &of_item}) {
        const auto each = 10'000.0 / static_cast<double>(counts->size());
        for (const int count : *counts) EXPECT_NEAR(count, each, 6 * std::sqrt(each));
      }
    }
}

TEST(Moments, AddUp) {
  const std::vector<double> all = {1e6 + 1, 1e6 + 2, 1e6 + 4, 1e6 + 8, 1e6 - 3};
  Moments sum;
  sum.add(moments_of({}));
  sum.add(moments_of({all[0], all[1]}));
  sum.add(moments_of({all[2], all[3], all[4]}));
  EXPECT_EQ(sum.count, 5);
  EXPECT_NEAR(sum.mean, moments_of(all).mean, 1e-9);
  EXPECT_NEAR(sum.squares, moments_of(all).squares, 1e-6);
}

}  // namespace
}  // namespace kerf::apps
