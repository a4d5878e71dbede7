// A row counts as correct when its label is its first largest score; a norm is a plain loop's.
#include "ops/metrics.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>
#include <vector>

namespace kerf::ops {
namespace {

int64_t correct(std::vector<float> scores, std::vector<int64_t> labels, int64_t among = 1) {
  const auto rows = static_cast<int64_t>(labels.size());
  const int64_t classes = rows == 0 ? 3 : static_cast<int64_t>(scores.size()) / rows;
  return count_correct(
      {DType::kFloat32, {rows, classes}, reinterpret_cast<std::byte*>(scores.data())},
      {DType::kInt64, {rows}, reinterpret_cast<std::byte*>(labels.data())}, among);
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

// The label's score is the fourth largest of the first row, and the second of the second.
TEST(CountCorrect, CountsLabelsAmongTheLargest) {
  const std::vector<float> scores{9, 3, 7, 8, 1, 2, 2, 6, 0, 1};
  const std::vector<int64_t> labels{1, 0};
  for (const auto& [among, expected] : {std::pair(1, 0), {2, 1}, {3, 1}, {4, 2}, {9, 2}})
    EXPECT_EQ(correct(scores, labels, among), expected) << among;
  EXPECT_EQ(correct({4, 4, 4, 4}, {2}, 2), 0) << "the first two of equal ones";
  EXPECT_EQ(correct({4, 4, 4, 4}, {2}, 3), 1);
  EXPECT_EQ(correct({NAN, 2, NAN, 3}, {3}, 2), 0) << "behind both";
  EXPECT_EQ(correct({NAN, 2}, {0}, 5), 0);
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

double norm(std::vector<float>& x) {
  return squared_norm({DType::kFloat32, {std::ssize(x)}, reinterpret_cast<std::byte*>(x.data())});
}

TEST(SquaredNorm, IsAPlainLoopsToRounding) {
  for (const size_t count : {0, 1, 15, 16, 17, 1000, 100'000, 3'000'001}) {
    std::vector<float> x(count);
    long double expected = 0;
    for (size_t i = 0; i < count; ++i) {
      x[i] = static_cast<float>(std::sin(static_cast<double>(i)));
      expected += static_cast<long double>(x[i]) * x[i];
    }
    EXPECT_NEAR(norm(x), static_cast<double>(expected), 1e-13 * static_cast<double>(expected))
        << count;
  }
}

TEST(SquaredNorm, IsExactOfWholeNumbers) {
  std::vector<float> x(70'000, 3);
  x.back() = -5;
  EXPECT_EQ(norm(x), 9.0 * 69'999 + 25);
}

TEST(SquaredNorm, HoldsTheLargestNumbersAndTellsWhatIsNotFinite) {
  std::vector<float> x(50'000, std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(norm(x)));
  for (const size_t place : {size_t{0}, size_t{33'333}, x.size() - 1})
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
      std::vector<float> spoiled = x;
      spoiled[place] = bad;
      EXPECT_FALSE(std::isfinite(norm(spoiled))) << place << " " << bad;
    }
}

// Pieces are shared out between threads; where they end does not depend on how many there are.
TEST(SquaredNorm, IsTheSameForAnyNumberOfThreads) {
  std::vector<float> x(1'000'000);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(std::cos(static_cast<double>(i))) / 3;
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const double alone = norm(x);
  for (const int threads : {2, 3, 7}) {
    omp_set_num_threads(threads);
    EXPECT_EQ(norm(x), alone) << threads;
  }
  omp_set_num_threads(before);
}

}  // namespace
}  // namespace kerf::ops
