#include "schedmp/selection/correlation_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <random>

#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

TEST(CorrelationCache, KnowsAPairEitherWayRound) {
  CorrelationCache cache(10);
  cache.learn(3, 8, -0.5);
  cache.learn(0, (int64_t{1} << 32) - 1, 0.25);
  EXPECT_EQ(cache.find(3, 8), -0.5);
  EXPECT_EQ(cache.find(8, 3), -0.5);
  EXPECT_EQ(cache.find((int64_t{1} << 32) - 1, 0), 0.25);
  EXPECT_EQ(cache.find(3, 9), std::nullopt);
  cache.learn(8, 3, 0.75);
  EXPECT_EQ(cache.find(3, 8), 0.75);
}

// Beside a list of the pairs in the order in which they were last used.
TEST(CorrelationCache, KnowsTheLastPairsAndHoldsNoMoreThanItMay) {
  for (const int64_t most : {2, 3, 10, 64}) {
    CorrelationCache cache(most);
    std::list<std::pair<int64_t, double>> used;  // variable paired with 1000, and its correlation
    std::mt19937 chance(4);
    for (int step = 0; step < 20'000; ++step) {
      const auto variable = static_cast<int64_t>(chance() % 100);
      const auto at = std::find_if(used.begin(), used.end(),
                                   [&](const auto& each) { return each.first == variable; });
      if (chance() % 2 == 0) {
        if (at != used.end()) used.erase(at);
        used.emplace_front(variable, static_cast<double>(step));
        cache.learn(variable, 1000, static_cast<double>(step));
      } else {
        const auto found = cache.find(1000, variable);
        if (found) {
          ASSERT_NE(at, used.end());
          ASSERT_EQ(*found, at->second);
          used.splice(used.begin(), used, at);
        } else {
          ASSERT_TRUE(at == used.end() || std::distance(used.begin(), at) >= most / 2);
        }
      }
      ASSERT_LE(cache.held(), most);
    }
  }
}

TEST(CorrelationCache, IsToldWhatIsOnItsWay) {
  CorrelationCache cache(4);
  EXPECT_TRUE(cache.is_missing(1, 2));
  cache.expect(1, 2);
  EXPECT_FALSE(cache.is_missing(2, 1));
  EXPECT_EQ(cache.find(1, 2), std::nullopt);
  cache.learn(2, 1, 0.5);
  EXPECT_FALSE(cache.is_missing(1, 2));
  EXPECT_EQ(cache.find(1, 2), 0.5);
  for (int64_t v = 10; v < 14; ++v) cache.expect(0, v);
  EXPECT_TRUE(cache.is_missing(1, 2)) << "forgotten";
}

TEST(CorrelationCache, RefusesWhatItCannotBe) {
  for (const int64_t most : {-1, 0, 1})
    EXPECT_EQ(tests::error_of([&] { CorrelationCache cache(most); })->code(), ErrorCode::kUsage);
  CorrelationCache cache(10);
  EXPECT_TRUE(tests::error_of([&] { cache.find(-1, 3); }));
  EXPECT_TRUE(tests::error_of([&] { cache.find(3, int64_t{1} << 32); }));
  EXPECT_TRUE(tests::error_of([&] { cache.learn(3, 3, 1); }));
  EXPECT_TRUE(tests::error_of([&] { cache.learn(3, 4, std::nan("")); }));
  EXPECT_EQ(cache.find(0, 0), std::nullopt);
}

}  // namespace
}  // namespace kerf::schedmp
