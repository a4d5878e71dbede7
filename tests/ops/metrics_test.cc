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
