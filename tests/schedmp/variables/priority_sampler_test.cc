#include "schedmp/variables/priority_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>

#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

using Delta = std::function<double(int64_t variable)>;

// Rounds of one set each, whose results are in before the next.
std::vector<std::vector<int64_t>> play(PrioritySampler& sampler, int sets, int64_t size,
                                       const Delta& delta) {
  std::vector<std::vector<int64_t>> all;
  for (int i = 0; i < sets; ++i) {
    all.push_back(sampler.draw(size));
    for (const int64_t variable : all.back()) sampler.result(variable, delta(variable));
  }
  return all;
}

TEST(PrioritySampler, DrawsEachVariableOnceAtFirst) {
  PrioritySampler sampler(100, 3);
  std::vector<int64_t> drawn;
  while (sampler.in_first_pass())
    for (const int64_t variable : sampler.draw(10)) {
      drawn.push_back(variable);
      sampler.result(variable, variable == 7 ? 1e9 : 0);
    }
  EXPECT_EQ(drawn, ops::permutation(100, 3, 0));
}

// What probability each variable has is known before every draw, within a set, too: chi-square
// against the sum of these, of 39 degrees of freedom at most.
TEST(PrioritySampler, DrawsInProportionToPriority) {
  constexpr int64_t kVariables = 40;
  constexpr double kFloor = 0.05;
  for (const int64_t size : {1, 8}) {
    PrioritySampler sampler(kVariables, 17, kFloor);
    // Half of them stand still; the others change by 1, 4, 9, ...
    const Delta delta = [](int64_t v) { return v % 2 == 0 ? 0 : -static_cast<double>(v * v) / 4; };
    play(sampler, kVariables / 8, 8, delta);
    ASSERT_FALSE(sampler.in_first_pass());
    std::vector<double> expected(kVariables), drawn(kVariables);
    for (int round = 0; round < 40'000; ++round) {
      std::vector<double> magnitude;
      for (int64_t v = 0; v < kVariables; ++v) magnitude.push_back(std::abs(delta(v)));
      std::vector<bool> is_left(kVariables, true);
      const auto set = play(sampler, 1, size, delta)[0];
      for (const int64_t variable : set) {
        double sum = 0, left = 0;
        for (size_t v = 0; v < kVariables; ++v)
          if (is_left[v]) {
            sum += magnitude[v];
            ++left;
          }
        for (size_t v = 0; v < kVariables; ++v)
          if (is_left[v])
            expected[v] += (magnitude[v] + kFloor * sum / left) / (sum + kFloor * sum);
        ++drawn[static_cast<size_t>(variable)];
        is_left[static_cast<size_t>(variable)] = false;
      }
    }
    double chi_square = 0;
    for (size_t v = 0; v < drawn.size(); ++v)
      chi_square += (drawn[v] - expected[v]) * (drawn[v] - expected[v]) / expected[v];
    EXPECT_LT(chi_square, 72.1) << "exceeded by chance once in a thousand seeds; size " << size;
  }
}

// What is drawn keeps what its result will say; of all others the new deltas count.
TEST(PrioritySampler, RestartsFromDeltasThatAreKnown) {
  PrioritySampler sampler(1000, 1, 1e-6);
  const auto drawn = sampler.draw(1);
  std::vector<double> deltas(1000);
  for (const int64_t v : {5, 50, 500}) deltas[static_cast<size_t>(v)] = -1;
  deltas[static_cast<size_t>(drawn[0])] = 1;
  sampler.restart(deltas);
  EXPECT_FALSE(sampler.in_first_pass());
  EXPECT_THAT(sampler.draw(3), testing::UnorderedElementsAre(5, 50, 500));
  sampler.result(drawn[0], 2);
  EXPECT_EQ(sampler.draw(1), drawn);
}

TEST(PrioritySampler, NeverDrawsWhatIsUnderWay) {
  for (const int64_t variables : {1, 6, 50}) {
    PrioritySampler sampler(variables, 4);
    std::mt19937 chance(8);
    std::vector<int64_t> under_way;
    int64_t drawn = 0;
    for (int round = 0; round < 4000; ++round) {
      const auto set = sampler.draw(1 + chance() % 12);
      drawn += std::ssize(set);
      std::set<int64_t> together(under_way.begin(), under_way.end());
      together.insert(set.begin(), set.end());
      ASSERT_EQ(together.size(), under_way.size() + set.size());
      under_way.insert(under_way.end(), set.begin(), set.end());
      // Every last one comes back in the end, in any order.
      for (auto results = chance() % 16; results > 0 && !under_way.empty(); --results) {
        std::swap(under_way[chance() % under_way.size()], under_way.back());
        sampler.result(under_way.back(), std::ldexp(1.0, static_cast<int>(chance() % 60)));
        under_way.pop_back();
      }
    }
    EXPECT_GT(drawn, 2000);
  }
}

TEST(PrioritySampler, WaitsWhileAllIsUnderWay) {
  PrioritySampler sampler(5, 1);
  const auto all = sampler.draw(9);
  EXPECT_EQ(all.size(), 5);
  EXPECT_THAT(sampler.draw(1), testing::IsEmpty());
  sampler.result(all[2], 0);
  EXPECT_THAT(sampler.draw(2), testing::ElementsAre(all[2]));
}

// The floor falls with the changes: the ones that stand still get the same share of draws whatever
// the scale is, here 90 % of a floor that is 0.11 of 1.11, less what five draws in a row take away.
TEST(PrioritySampler, StarvesNobodyAtAnyScale) {
  PrioritySampler sampler(100, 2, 0.11);
  double scale = 1;
  const Delta delta = [&](int64_t v) { return v < 10 ? scale : 0; };
  for (scale = 1; scale > 1e-12; scale *= 0.001) {
    play(sampler, 400, 5, delta);
    int64_t still = 0;
    std::vector<int64_t> times(100);
    for (const auto& set : play(sampler, 4000, 5, delta))
      for (const int64_t variable : set) {
        ++times[static_cast<size_t>(variable)];
        still += variable >= 10 ? 1 : 0;
      }
    EXPECT_GT(*std::min_element(times.begin(), times.end()), 0) << scale;
    EXPECT_GT(still, 20'000 * 0.05) << scale;
    EXPECT_LT(still, 20'000 * 0.15) << scale;
  }
}

TEST(PrioritySampler, IsUniformWhereNothingChanges) {
  PrioritySampler sampler(20, 6);
  std::vector<double> times(20);
  for (const auto& set : play(sampler, 8004, 5, [](int64_t) { return 0; }))
    for (const int64_t variable : set) ++times[static_cast<size_t>(variable)];
  EXPECT_THAT(times, testing::Each(testing::DoubleNear(2001, 200)));
}

TEST(PrioritySampler, RepeatsItselfBySeed) {
  const auto drawn = [](uint64_t seed) {
    PrioritySampler sampler(30, seed);
    return play(sampler, 100, 4, [](int64_t v) { return std::sqrt(static_cast<double>(v)); });
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
}

TEST(PrioritySampler, RefusesWhatIsNotFinite) {
  for (const double delta :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN(), 1e300}) {
    PrioritySampler sampler(3, 1);
    const int64_t variable = sampler.draw(1)[0];
    const auto error = tests::error_of([&] { sampler.result(variable, delta); });
    ASSERT_TRUE(error) << delta;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_THAT(error->what(), testing::HasSubstr("diverges"));
  }
}

TEST(PrioritySampler, RefusesWhatItCannotBe) {
  for (const double floor : {0.0, -0.1, 1.1, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(tests::error_of([&] { PrioritySampler(5, 1, floor); })->code(), ErrorCode::kUsage);
  EXPECT_EQ(tests::error_of([&] { PrioritySampler(0, 1); })->code(), ErrorCode::kUsage);
  PrioritySampler sampler(5, 1);
  EXPECT_EQ(tests::error_of([&] { sampler.result(0, 1); })->code(), ErrorCode::kInternal);
}

}  // namespace
}  // namespace kerf::schedmp
