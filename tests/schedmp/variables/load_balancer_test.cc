#include "schedmp/variables/load_balancer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

using Amounts = std::vector<double>;

// Variables are numbered as the weights are.
std::vector<std::vector<int64_t>> divide(LoadBalancer balancer, const Amounts& weights) {
  std::vector<int64_t> variables(weights.size());
  std::iota(variables.begin(), variables.end(), 0);
  return balancer.divide(variables, weights);
}

std::vector<double> finish_of(const LoadBalancer& balancer, const Amounts& weights) {
  std::vector<double> finish;
  int worker = 0;
  for (const auto& share : divide(balancer, weights)) {
    finish.push_back(0);
    for (const int64_t variable : share)
      finish.back() += weights[static_cast<size_t>(variable)] * balancer.seconds_per_weight(worker);
    ++worker;
  }
  return finish;
}

double last_of(const std::vector<double>& finish) {
  return *std::max_element(finish.begin(), finish.end());
}

// The earliest last finish of all ways to divide the weights from `next` on.
double earliest_last(const LoadBalancer& balancer, const Amounts& weights, size_t next,
                     std::vector<double>& finish) {
  if (next == weights.size()) return last_of(finish);
  double best = std::numeric_limits<double>::infinity();
  for (size_t worker = 0; worker < finish.size(); ++worker) {
    const double before = finish[worker];
    finish[worker] += weights[next] * balancer.seconds_per_weight(static_cast<int>(worker));
    best = std::min(best, earliest_last(balancer, weights, next + 1, finish));
    finish[worker] = before;
  }
  return best;
}

Amounts random_weights(std::mt19937& chance, int count, unsigned most) {
  Amounts weights;
  for (int i = 0; i < count; ++i) weights.push_back(static_cast<double>(chance() % most));
  return weights;
}

TEST(LoadBalancer, DividesEveryVariableOnce) {
  std::mt19937 chance(1);
  LoadBalancer balancer(4);
  for (int round = 0; round < 50; ++round) {
    const Amounts weights = random_weights(chance, round, 100);
    std::vector<int64_t> all;
    for (const auto& share : divide(balancer, weights)) {
      EXPECT_TRUE(std::is_sorted(share.begin(), share.end())) << "in the order of the set";
      all.insert(all.end(), share.begin(), share.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::ssize(all), round);
    EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
    balancer.measured(round % 4, 10, static_cast<double>(1 + chance() % 9));
  }
}

// What is known of longest processing time first, against the optimum of all 3^7 ways.
TEST(LoadBalancer, EndsNearTheEarliestPossible) {
  std::mt19937 chance(2);
  for (int round = 0; round < 60; ++round) {
    LoadBalancer equal(3), unequal(3);
    for (int worker = 0; worker < 3; ++worker)
      unequal.measured(worker, 1, static_cast<double>(1 + chance() % 5));
    const Amounts weights = random_weights(chance, 7, 20);
    std::vector<double> nothing(3);
    const double best = earliest_last(equal, weights, 0, nothing);
    EXPECT_LE(last_of(finish_of(equal, weights)), best * (4.0 / 3 - 1.0 / 9) + 1e-9);
    const double best_unequal = earliest_last(unequal, weights, 0, nothing);
    EXPECT_LE(last_of(finish_of(unequal, weights)), best_unequal * 5 / 3 + 1e-9);
  }
}

// Graham's example, where it is as bad as it gets: 11 for 9.
TEST(LoadBalancer, IsLongestProcessingTimeFirst) {
  EXPECT_THAT(divide(LoadBalancer(3), {5, 5, 4, 4, 3, 3, 3}),
              testing::ElementsAre(testing::ElementsAre(0, 4, 6), testing::ElementsAre(1, 5),
                                   testing::ElementsAre(2, 3)));
}

// No worker's lightest variable would end earlier with another worker.
TEST(LoadBalancer, LeavesGapsOfAVariableAtMost) {
  std::mt19937 chance(3);
  LoadBalancer balancer(5);
  for (int worker = 0; worker < 5; ++worker)
    balancer.measured(worker, 100, static_cast<double>(50 + chance() % 200));
  for (int round = 0; round < 100; ++round) {
    const Amounts weights = random_weights(chance, 60, 1000);
    const auto shares = divide(balancer, weights);
    const auto finish = finish_of(balancer, weights);
    for (size_t worker = 0; worker < finish.size(); ++worker) {
      double lightest = 1000;
      for (const int64_t variable : shares[worker])
        lightest = std::min(lightest, weights[static_cast<size_t>(variable)]);
      for (size_t other = 0; other < finish.size(); ++other) {
        const double takes = lightest * balancer.seconds_per_weight(static_cast<int>(other));
        EXPECT_LE(finish[worker], finish[other] + takes + 1e-9);
      }
    }
  }
}

TEST(LoadBalancer, GivesOneAtHalfSpeedHalf) {
  LoadBalancer balancer(4);
  for (int worker = 0; worker < 4; ++worker) balancer.measured(worker, 100, worker == 2 ? 2 : 1);
  const auto shares = divide(balancer, Amounts(700, 3));
  EXPECT_THAT(shares[2], testing::SizeIs(100));
  for (const int worker : {0, 1, 3})
    EXPECT_THAT(shares[static_cast<size_t>(worker)], testing::SizeIs(200));
}

// ---- what has to stay in its order

// Where each worker's part of all weight ends, as the header has it: the first place behind which
// there is as much, but one for everybody.
std::vector<int64_t> plain_borders(const std::vector<int64_t>& weights,
                                   const std::vector<int64_t>& speeds) {
  const auto count = std::ssize(weights), workers = std::ssize(speeds);
  const auto sum = [](const std::vector<int64_t>& of, int64_t end) {
    return std::accumulate(of.begin(), of.begin() + end, int64_t{0});
  };
  std::vector<int64_t> borders = {0};
  for (int64_t worker = 1; worker <= workers; ++worker) {
    const int64_t enough = sum(weights, count) * sum(speeds, worker) / sum(speeds, workers);
    int64_t border = 0;
    while (sum(weights, border) < enough) ++border;
    if (worker == workers) border = count;
    borders.push_back(std::clamp(border, borders.back() + 1, count - (workers - worker)));
  }
  return borders;
}

// Speeds are powers of two: they have reciprocals.
TEST(LoadBalancer, PutsBordersWhereSpeedsSay) {
  std::mt19937 chance(4);
  for (int round = 0; round < 300; ++round) {
    const auto workers = static_cast<int>(1 + chance() % 6);
    std::vector<int64_t> speeds, weights;
    LoadBalancer balancer(workers);
    for (int worker = 0; worker < workers; ++worker) {
      speeds.push_back(int64_t{1} << chance() % 11);
      balancer.measured(worker, static_cast<double>(speeds.back()), 1);
    }
    const unsigned most = 1 + chance() % 50;
    for (auto i = static_cast<int64_t>(workers + chance() % 40); i > 0; --i)
      weights.push_back(static_cast<int64_t>(chance() % most));
    EXPECT_EQ(balancer.borders(weights), plain_borders(weights, speeds));
  }
}

// Each has its part of the weight but for the two things at its borders, and one at least.
TEST(LoadBalancer, DividesInOrderByParts) {
  std::mt19937 chance(5);
  for (int round = 0; round < 100; ++round) {
    LoadBalancer balancer(4);
    std::vector<double> speeds;
    for (int worker = 0; worker < 4; ++worker) {
      speeds.push_back(static_cast<double>(1 + chance() % 5));
      balancer.measured(worker, 100 * speeds.back(), 7);
    }
    std::vector<int64_t> weights(500);
    for (int64_t& each : weights) each = chance() % 100;
    const auto borders = balancer.borders(weights);
    ASSERT_THAT(borders, testing::SizeIs(5));
    EXPECT_EQ(borders.front(), 0);
    EXPECT_EQ(borders.back(), 500);
    const auto all = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (size_t worker = 0; worker < 4; ++worker) {
      ASSERT_LT(borders[worker], borders[worker + 1]);
      const double part = all * speeds[worker] / std::accumulate(speeds.begin(), speeds.end(), 0.0);
      EXPECT_NEAR(std::accumulate(weights.begin() + borders[worker],
                                  weights.begin() + borders[worker + 1], 0.0),
                  part, 100);
    }
  }
}

TEST(LoadBalancer, DividesUnitsInOrderWithinOne) {
  LoadBalancer balancer(4);
  for (int worker = 0; worker < 4; ++worker) balancer.measured(worker, 1, worker == 2 ? 2 : 1);
  EXPECT_THAT(balancer.borders(std::vector<int64_t>(700, 1)),
              testing::ElementsAre(0, 200, 400, 500, 700));
  EXPECT_THAT(balancer.borders(std::vector<int64_t>(8, 1)), testing::ElementsAre(0, 2, 4, 5, 8));
}

// One that is a thousand times slower has one thing, wherever it stands and however few there are.
TEST(LoadBalancer, LeavesEverybodyOne) {
  for (int slow = 0; slow < 4; ++slow)
    for (const size_t count : {4, 5, 11, 100}) {
      LoadBalancer balancer(4);
      for (int worker = 0; worker < 4; ++worker)
        balancer.measured(worker, 1, worker == slow ? 1000 : 1);
      const auto borders = balancer.borders(std::vector<int64_t>(count, 1));
      EXPECT_EQ(borders[static_cast<size_t>(slow) + 1] - borders[static_cast<size_t>(slow)], 1);
      for (size_t worker = 0; worker < 4; ++worker) EXPECT_LT(borders[worker], borders[worker + 1]);
    }
  for (const auto& weights : {std::vector<int64_t>{0, 0, 9, 0}, {9, 0, 0, 0}, {0, 0, 0, 9}})
    EXPECT_THAT(LoadBalancer(4).borders(weights), testing::ElementsAre(0, 1, 2, 3, 4));
}

// ---- what is measured

// A worker that slows down is known by its last tasks; one slow task is soon forgotten.
TEST(LoadBalancer, FollowsMeasurements) {
  LoadBalancer balancer(1, 0.5);
  balancer.measured(0, 10, 10);
  EXPECT_DOUBLE_EQ(balancer.seconds_per_weight(0), 1);
  balancer.measured(0, 10, 40);
  EXPECT_DOUBLE_EQ(balancer.seconds_per_weight(0), (10 * 0.5 + 40) / (10 * 0.5 + 10));
  for (int task = 0; task < 60; ++task) balancer.measured(0, 5, 1);
  EXPECT_NEAR(balancer.seconds_per_weight(0), 0.2, 1e-12);
  LoadBalancer forgetful(1, 0);
  forgetful.measured(0, 1, 100);
  forgetful.measured(0, 1, 3);
  EXPECT_EQ(forgetful.seconds_per_weight(0), 3);
}

// Each division is measured, as a program would: one hiccup, of a thousand times as long.
TEST(LoadBalancer, GivesWorkAgainToOneThatWasSlowOnce) {
  LoadBalancer balancer(2);
  std::vector<int64_t> variables(100);
  const Amounts weights(100, 1);
  const auto round = [&](double hiccup) {
    const auto shares = balancer.divide(variables, weights);
    for (int worker = 0; worker < 2; ++worker) {
      const auto weight = static_cast<double>(shares[static_cast<size_t>(worker)].size());
      balancer.measured(worker, weight, weight * (worker == 1 ? hiccup : 1));
    }
    return shares[1].size();
  };
  EXPECT_EQ(round(1), 50);
  EXPECT_EQ(round(1000), 50);
  EXPECT_EQ(round(1), 0);
  size_t share = 0;
  for (int later = 0; later < 100; ++later) share = round(1);
  EXPECT_NEAR(static_cast<double>(share), 50, 5);
}

// Tasks without weight say nothing, however long they take.
TEST(LoadBalancer, KnowsNoPaceWithoutWeight) {
  LoadBalancer balancer(2);
  balancer.measured(1, 1, 1);
  for (int task = 0; task < 5000; ++task) balancer.measured(1, 0, 1e-5);
  EXPECT_EQ(balancer.seconds_per_weight(1), 1);
}

TEST(LoadBalancer, CountsAWorkerWithoutMeasurementsAsTheMean) {
  LoadBalancer balancer(4);
  EXPECT_EQ(balancer.seconds_per_weight(3), 1);
  balancer.measured(0, 10, 20);
  balancer.measured(1, 10, 40);
  balancer.measured(2, 0, 0);  // which tells nothing
  EXPECT_EQ(balancer.seconds_per_weight(2), 3);
  EXPECT_EQ(balancer.seconds_per_weight(3), 3);
}

TEST(LoadBalancer, DealsWhatWeighsNothing) {
  for (const auto& share : divide(LoadBalancer(3), Amounts(12, 0)))
    EXPECT_THAT(share, testing::SizeIs(4));
}

TEST(LoadBalancer, RefusesWhatCannotBe) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto code_of = [](const auto& body) { return tests::error_of(body).value().code(); };
  EXPECT_EQ(code_of([] { LoadBalancer(0); }), ErrorCode::kUsage);
  for (const double decay : {-0.1, 1.0, nan})
    EXPECT_EQ(code_of([&] { LoadBalancer(2, decay); }), ErrorCode::kUsage);
  LoadBalancer balancer(2);
  for (const double amount : {-1.0, infinity, nan}) {
    EXPECT_EQ(code_of([&] { divide(balancer, {1, amount}); }), ErrorCode::kUsage);
    EXPECT_EQ(code_of([&] { balancer.measured(0, amount, 1); }), ErrorCode::kInternal);
    EXPECT_EQ(code_of([&] { balancer.measured(0, 1, amount); }), ErrorCode::kInternal);
  }
  EXPECT_EQ(code_of([&] { balancer.measured(2, 1, 1); }), ErrorCode::kInternal);
  EXPECT_EQ(code_of([&] { balancer.borders(std::vector<int64_t>{3}); }), ErrorCode::kInternal);
}

}  // namespace
}  // namespace kerf::schedmp
