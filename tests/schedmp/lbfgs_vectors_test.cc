// Pieces of vectors do what plain loops do to whole ones; L-BFGS's pairs make the direction that
// the dense formula makes.
#include "schedmp/training/lbfgs_vectors.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>

#include "runtime/error.h"
#include "runtime/wire.h"
#include "schedmp/training/lbfgs_history.h"
#include "tests/schedmp/lbfgs_pieces.h"

namespace kerf::schedmp {
namespace {

using tests::LbfgsPieces;
using tests::normal_floats;
using Vectors = std::vector<std::vector<float>>;

double dot_of(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

// One operation on whole vectors; what it asks for, if it does.
std::vector<double> plainly(const VectorOperation& o, Vectors& vectors) {
  std::vector<float>& a = vectors[static_cast<size_t>(o.a)];
  const std::vector<float>& b = vectors[static_cast<size_t>(o.b)];
  if (o.act == VectorAct::kDot) return {dot_of(a, b)};
  if (o.act == VectorAct::kLargest) {
    double largest = 0;
    for (const float each : a) largest = std::max(largest, std::abs(double{each}));
    return {largest};
  }
  for (size_t i = 0; i < a.size(); ++i) {
    const volatile double product = o.factor * double{b[i]};
    a[i] = static_cast<float>(o.act == VectorAct::kAdd ? double{a[i]} + product : product);
  }
  return {};
}

VectorWork random_work(int vectors, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](int below) {
    return static_cast<int32_t>(random() % static_cast<uint64_t>(below));
  };
  VectorWork work;
  for (int i = 0; i < 40; ++i) {
    VectorOperation o{static_cast<VectorAct>(draw(4)), draw(vectors), draw(vectors),
                      0.1 * (draw(21) - 10)};
    const bool writes = o.act == VectorAct::kSet || o.act == VectorAct::kAdd;
    if (writes && o.a == kGradient) o.a = kDirection;
    work.operations.push_back(o);
  }
  return work;
}

TEST(LbfgsVectors, DoWhatPlainLoopsDo) {
  constexpr int kHistory = 2;
  constexpr int kVectors = kFirstPair + 2 * kHistory;
  for (const size_t count : {0, 1, 5, 100, 20'001})
    for (const int pieces : {1, 2, 3}) {
      LbfgsPieces split(normal_floats(count, 1), pieces, kHistory);
      std::ranges::copy(normal_floats(count, 2), split.gradient.begin());
      Vectors plain{split.point, split.gradient};
      for (int32_t vector = kBase; vector < kVectors; ++vector)
        split.write(vector,
                    plain.emplace_back(normal_floats(count, static_cast<uint64_t>(vector))));
      const VectorWork work = random_work(kVectors, count + 7);
      const std::vector<double> sums = split.run(work);
      std::vector<double> expected;
      for (const VectorOperation& each : work.operations)
        for (const double sum : plainly(each, plain)) expected.push_back(sum);
      ASSERT_EQ(sums.size(), expected.size());
      for (size_t i = 0; i < sums.size(); ++i)
        EXPECT_NEAR(sums[i], expected[i], 1e-12 * (1 + static_cast<double>(count))) << i;
      for (int32_t vector = 0; vector < kVectors; ++vector)
        EXPECT_EQ(vector == kGradient ? split.gradient : split.read(vector),
                  plain[static_cast<size_t>(vector)])
            << vector;
    }
}

// GCC's OpenMP runtime is not built for it: every barrier would be reported as a race.
#ifndef __SANITIZE_THREAD__
TEST(LbfgsVectors, HaveTheSameSumsOnAnyNumberOfThreads) {
  const int before = omp_get_max_threads();
  VectorWork work;
  work.add(kPoint, kPoint, 0.5);
  work.dot(kPoint, kPoint);
  std::vector<std::vector<double>> sums;
  for (const int threads : {1, 3}) {
    omp_set_num_threads(threads);
    sums.push_back(LbfgsPieces(normal_floats(200'001, 3), 1, 1).run(work));
  }
  omp_set_num_threads(before);
  EXPECT_EQ(sums[0], sums[1]);
}
#endif

TEST(LbfgsVectors, TellOfNumbersThatAreNotFinite) {
  for (const float odd : {std::nanf(""), -std::numeric_limits<float>::infinity()})
    for (const size_t place : {0, 5, 29}) {
      LbfgsPieces split(normal_floats(30, 1), 3, 1);
      split.point[place] = odd;
      VectorWork work;
      work.largest(kPoint);
      work.dot(kPoint, kPoint);
      const std::vector<double> sums = split.run(work);
      EXPECT_EQ(sums[0], std::numeric_limits<double>::infinity()) << place;
      EXPECT_FALSE(std::isfinite(sums[1])) << place;
    }
}

TEST(LbfgsVectors, RefuseWorkThatIsNone) {
  LbfgsPieces split(normal_floats(30, 1), 1, 1);
  using enum VectorAct;
  for (const VectorOperation& wrong : {VectorOperation{kSet, kGradient, kPoint},
                                       {kAdd, kGradient, kPoint},
                                       {kDot, -1, kPoint},
                                       {kDot, kPoint, kFirstPair + 2},
                                       {kSet, kFirstPair + 2, kPoint},
                                       {VectorAct{9}, 0, 0}})
    EXPECT_THROW(split.run({{wrong}}), Error);
  VectorWork work;
  work.dot(kPoint, kPoint);
  std::vector<double> one(1);
  EXPECT_THROW(fold(work, std::vector<double>(2), one), Error);
  EXPECT_THROW(fold(work, {}, one), Error);
}

TEST(LbfgsVectors, Travel) {
  const VectorWork work = random_work(9, 4);
  const auto read = runtime::decode<VectorWork>(runtime::encode(work));
  ASSERT_EQ(read.operations.size(), work.operations.size());
  for (size_t i = 0; i < work.operations.size(); ++i) {
    const VectorOperation& a = work.operations[i];
    const VectorOperation& b = read.operations[i];
    EXPECT_TRUE(a.act == b.act && a.a == b.a && a.b == b.b && a.factor == b.factor) << i;
  }
}

// ---- pairs

using Dense = std::vector<std::vector<double>>;

// H = (1 - s y' / y's) H (1 - y s' / y's) + s s' / y's, of `pairs` in their order, from the last
// pair's s'y / y'y times the identity; times minus g.
std::vector<double> dense_direction(
    const std::vector<std::pair<std::vector<float>, std::vector<float>>>& pairs,
    const std::vector<float>& g) {
  const size_t n = g.size();
  Dense h(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i)
    h[i][i] = pairs.empty() ? 1
                            : dot_of(pairs.back().first, pairs.back().second) /
                                  dot_of(pairs.back().second, pairs.back().second);
  for (const auto& [s, y] : pairs) {
    const double sy = dot_of(s, y);
    std::vector<double> hy(n);
    double yhy = 0;
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) hy[i] += h[i][j] * double{y[j]};
    for (size_t i = 0; i < n; ++i) yhy += double{y[i]} * hy[i];
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        h[i][j] += (1 + yhy / sy) * double{s[i]} * double{s[j]} / sy -
                   (double{s[i]} * hy[j] + hy[i] * double{s[j]}) / sy;
  }
  std::vector<double> direction(n);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) direction[i] -= h[i][j] * double{g[j]};
  return direction;
}

class LbfgsPairs : public testing::Test {
 protected:
  static constexpr size_t kCount = 7;
  static constexpr int kMost = 3;

  // The point goes by s and the gradient by y, and both become the bases.
  void change(const std::vector<float>& s, const std::vector<float>& y) {
    VectorWork work;
    work.set(kBase, kPoint);
    work.set(kBaseGradient, kGradient);
    split_.run(work);
    for (size_t i = 0; i < kCount; ++i) {
      split_.point[i] += s[i];
      split_.gradient[i] += y[i];
    }
    work = {};
    history_.add_pair(work);
    work.set(kBaseGradient, kGradient);
    history_.ask(work);
    history_.take(split_.run(work));
  }
  void expect_dense() {
    VectorWork work;
    history_.add_direction(work);
    split_.run(work);
    const std::vector<float> direction = split_.read(kDirection);
    const std::vector<double> expected = dense_direction(pairs_, split_.gradient);
    double size = 0;
    for (const double each : expected) size = std::max(size, std::abs(each));
    for (size_t i = 0; i < kCount; ++i)
      EXPECT_NEAR(direction[i], expected[i], 2e-6 * size) << pairs_.size() << " pairs, " << i;
  }
  // y = A s for a diagonal A, which changes: quarters, so that sums of them are exact.
  void change_well(uint64_t seed) {
    std::vector<float> s = normal_floats(kCount, seed);
    for (float& each : s) each = std::round(16 * each) / 16;
    std::vector<float> y = s;
    for (size_t i = 0; i < kCount; ++i) y[i] *= 0.25F * static_cast<float>(1 + (i + seed) % 9);
    change(s, y);
    pairs_.emplace_back(s, y);
    if (pairs_.size() > kMost) pairs_.erase(pairs_.begin());
  }

  LbfgsPieces split_{std::vector<float>(kCount), 2, kMost};
  LbfgsHistory history_{kMost};
  std::vector<std::pair<std::vector<float>, std::vector<float>>> pairs_;
};

TEST_F(LbfgsPairs, MakeTheDirectionOfTheDenseFormula) {
  for (uint64_t i = 0; i < 8; ++i) {
    change_well(i);
    EXPECT_EQ(history_.pairs(), std::min<int>(static_cast<int>(i) + 1, kMost));
    EXPECT_NEAR(history_.squared_gradient(), dot_of(split_.gradient, split_.gradient), 1e-12);
    expect_dense();
  }
}

TEST_F(LbfgsPairs, AreForgotten) {
  change_well(1);
  change_well(2);
  history_.forget();
  pairs_.clear();
  expect_dense();
  for (uint64_t i = 3; i < 8; ++i) {
    change_well(i);
    expect_dense();
  }
}

// The oldest made room for it.
TEST_F(LbfgsPairs, AreNotTakenWhereTheGradientDoesNotGrow) {
  for (const float grows : {-1.0F, 0.0F, 1e-8F}) {
    for (uint64_t i = 0; i < kMost; ++i) change_well(i);
    std::vector<float> s(kCount, 0.0F);
    s[0] = split_.gradient[0] > 0 ? -0.5F : 0.5F;  // downwards
    std::vector<float> y = s;
    for (float& each : y) each *= grows;
    change(s, y);
    pairs_.erase(pairs_.begin());
    EXPECT_EQ(history_.pairs(), kMost - 1) << grows;
    expect_dense();
  }
}

}  // namespace
}  // namespace kerf::schedmp
