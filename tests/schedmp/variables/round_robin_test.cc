#include "schedmp/variables/round_robin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

TEST(RoundRobin, LaysSetsEndToEnd) {
  const RoundRobin turn(5, 2);
  EXPECT_THAT(turn.set(0), testing::ElementsAre(0, 1));
  EXPECT_THAT(turn.set(1), testing::ElementsAre(2, 3));
  EXPECT_THAT(turn.set(2), testing::ElementsAre(4, 0));
  EXPECT_THAT(turn.set(3), testing::ElementsAre(1, 2));
}

TEST(RoundRobin, RoundsThatFitInOnePassHaveNoVariableInCommon) {
  for (const int64_t variables : {1, 2, 7, 12, 30})
    for (int64_t size = 1; size <= variables; ++size) {
      const RoundRobin turn(variables, size);
      const int64_t depth = variables / size;
      for (int64_t round = 0; round < 2 * variables; ++round) {
        std::set<int64_t> together;
        for (int64_t next = round; next < round + depth; ++next)
          for (const int64_t variable : turn.set(next)) together.insert(variable);
        EXPECT_EQ(std::ssize(together), depth * size) << variables << " in sets of " << size;
      }
    }
}

TEST(RoundRobin, KnowsAnyRoundWithoutThoseBefore) {
  const int64_t most = int64_t{1} << 32;
  const int64_t far = int64_t{1} << 62;
  // Every round begins one place before the last one.
  EXPECT_EQ(RoundRobin(7, 6).set(far).front(), (7 - far % 7) % 7);
  EXPECT_THAT(RoundRobin(most, 1).set(far + 5), testing::ElementsAre(5));
  EXPECT_THAT(RoundRobin(most - 1, 1).set(far - 1), testing::ElementsAre((far - 1) % (most - 1)));
}

TEST(RoundRobin, RefusesSetsThatDoNotFit) {
  for (const auto& sizes :
       std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {-1, 1}, {5, 0}, {5, 6}}) {
    const auto error = tests::error_of([&] { RoundRobin(sizes.first, sizes.second); });
    ASSERT_TRUE(error) << sizes.first << ", " << sizes.second;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
  }
}

}  // namespace
}  // namespace kerf::schedmp
