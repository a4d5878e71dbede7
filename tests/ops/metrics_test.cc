// A row counts as correct when its label is its first largest score.
#include "ops/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace kerf::ops {
namespace {

int64_t correct(std::vector<float> scores, std::vector<int64_t> labels) {
  const auto rows = static_cast<int64_t>(labels.size());
  const int64_t classes = rows == 0 ? 3 : static_cast<int64_t>(scores.size()) / rows;
  return count_correct(
      {DType::kFloat32, {rows, classes}, reinterpret_cast<std::byte*>(scores.data())},
      {DType::kInt64, {rows}, reinterpret_cast<std::byte*>(labels.data())});
}

TEST(CountCorrect, CountsRowsWhoseLargestScoreIsAtTheLabel) {
  EXPECT_EQ(correct({1, 2, 3, 9, 2, 3, 1, 5, 3}, {2, 0, 0}), 2);
  EXPECT_EQ(correct({}, {}), 0);
}

TEST(CountCorrect, GivesTiesToTheFirst) {
  EXPECT_EQ(correct({4, 4, 1}, {0}), 1);
  EXPECT_EQ(correct({4, 4, 1}, {1}), 0);
}

TEST(CountCorrect, TakesInfinityForANumber) {
  EXPECT_EQ(correct({-INFINITY, 0, INFINITY}, {2}), 1);
}

TEST(CountCorrect, IsNotFooledByADivergedNetwork) {
  EXPECT_EQ(correct({NAN, NAN, NAN, NAN, 1, 2, 1, 2, NAN}, {0, 2, 1}), 0);
}

TEST(CountCorrect, IsNotFooledByLabelsThatAreNoClass) {
  EXPECT_EQ(correct({1, 2, 3, 1, 2, 3}, {-1, 3}), 0);
}

// [2, 3 classes, 2 positions]: a class is two apart.
TEST(CountCorrect, TakesARowForEachPosition) {
  std::vector<float> scores{1, 9, 5, 2, 3, 3, 4, 0, 2, 7, 6, 1};
  std::vector<int64_t> labels{1, 0, 2, 2};
  EXPECT_EQ(count_correct({DType::kFloat32, {2, 3, 2}, reinterpret_cast<std::byte*>(scores.data())},
                          {DType::kInt64, {2, 2}, reinterpret_cast<std::byte*>(labels.data())}),
            3);
}

TEST(CountPicked, CountsRowsWhoseLabelHasTheLargestScoreOfAllSegments) {
  std::vector<float> maximum{3, 5, 2, 8, 1, 1};
  std::vector<float> picked{5, 7, 1};
  const auto at = [](std::vector<float>& data) {
    return reinterpret_cast<std::byte*>(data.data());
  };
  EXPECT_EQ(
      count_picked({DType::kFloat32, {3, 2}, at(maximum)}, {DType::kFloat32, {3}, at(picked)}), 2);
  picked[0] = NAN;
  EXPECT_EQ(
      count_picked({DType::kFloat32, {3, 2}, at(maximum)}, {DType::kFloat32, {3}, at(picked)}), 1);
}

TEST(CountCorrect, RefusesOtherShapes) {
  std::vector<float> scores(6);
  std::vector<int64_t> labels(3);
  auto* const s = reinterpret_cast<std::byte*>(scores.data());
  auto* const l = reinterpret_cast<std::byte*>(labels.data());
  EXPECT_THROW(count_correct({DType::kFloat32, {2, 3}, s}, {DType::kInt64, {3}, l}), Error);
  EXPECT_THROW(count_correct({DType::kFloat32, {6}, s}, {DType::kInt64, {3}, l}), Error);
}

}  // namespace
}  // namespace kerf::ops
