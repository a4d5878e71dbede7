#include "schedmp/training/row_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace kerf::schedmp {
namespace {

std::vector<int64_t> all_of(const RowOrder& order, int64_t rows) {
  std::vector<int64_t> list;
  for (int64_t place = 0; place < rows; ++place) list.push_back(order[place]);
  return list;
}

TEST(RowOrder, HasEveryRowOnceWithAListAndWithout) {
  for (const int64_t rows : {1, 2, 3, 4, 5, 17, 64, 1000, 1025})
    for (const int64_t most_listed : {0, 2000}) {
      const auto list = all_of(RowOrder(rows, 3, 2, most_listed), rows);
      const std::set<int64_t> each(list.begin(), list.end());
      EXPECT_EQ(std::ssize(each), rows);
      EXPECT_EQ(*each.begin(), 0);
      EXPECT_EQ(*each.rbegin(), rows - 1);
    }
}

TEST(RowOrder, OfFewRowsIsTheList) {
  EXPECT_EQ(all_of(RowOrder(100, 1, 2), 100), ops::permutation(100, 1, 2));
}

TEST(RowOrder, DependsOnSeedAndEpoch) {
  const auto order = [](uint64_t seed, int64_t epoch) {
    return all_of(RowOrder(1000, seed, epoch, 0), 1000);
  };
  EXPECT_EQ(order(1, 2), order(1, 2));
  EXPECT_NE(order(1, 2), order(2, 2));
  EXPECT_NE(order(1, 2), order(1, 3));
}

// Rows are as far from their places as chance has it: a third of all, on average.
TEST(RowOrder, Mixes) {
  constexpr int64_t kRows = 100'000;
  const RowOrder order(kRows, 7, 0, 0);
  double distance = 0;
  int64_t ascending = 0;
  for (int64_t place = 1; place < kRows; ++place) {
    distance += std::abs(static_cast<double>(order[place] - place));
    ascending += order[place] > order[place - 1] ? 1 : 0;
  }
  EXPECT_NEAR(distance / kRows / kRows, 1.0 / 3, 0.01);
  EXPECT_NEAR(static_cast<double>(ascending) / kRows, 0.5, 0.01);
}

// More than fit any memory, at once.
TEST(RowOrder, OfVeryManyRowsTakesNoTime) {
  constexpr int64_t kRows = int64_t{5} << 40;
  const RowOrder order(kRows, 7, 0);
  for (const int64_t place : {int64_t{0}, int64_t{1}, kRows - 1}) {
    EXPECT_GE(order[place], 0);
    EXPECT_LT(order[place], kRows);
  }
}

}  // namespace
}  // namespace kerf::schedmp
