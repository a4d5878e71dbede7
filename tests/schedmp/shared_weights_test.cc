// Replicas that share their weights through tables, against one worker that does the same sums: of
// two means over B rows each, the sum is twice the mean over 2 B.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "runtime/error.h"
#include "schedmp/training/replicas.h"
#include "tests/schedmp/trained.h"
#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

using tests::Answer;
using tests::Case;
using tests::train;

const float* numbers_of(const NamedTensor& tensor) {
  return reinterpret_cast<const float*>(tensor.bytes.data());
}

void expect_near(const Answer& a, const Answer& b, double within) {
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (size_t i = 0; i < a.weights.size(); ++i) {
    ASSERT_EQ(a.weights[i].name, b.weights[i].name);
    for (int64_t at = 0; at < a.weights[i].shape.elements(); ++at)
      ASSERT_NEAR(numbers_of(a.weights[i])[at], numbers_of(b.weights[i])[at], within)
          << a.weights[i].name << " " << at;
  }
}

// By how much weights changed, all of them, as the largest difference of two runs in parts of the
// largest change of the first.
double difference_of_changes(const Answer& begun, const Answer& a, const Answer& b) {
  double change = 0;
  double difference = 0;
  for (size_t i = 0; i < a.weights.size(); ++i)
    for (int64_t at = 0; at < a.weights[i].shape.elements(); ++at) {
      const double one = numbers_of(a.weights[i])[at] - numbers_of(begun.weights[i])[at];
      const double other = numbers_of(b.weights[i])[at] - numbers_of(begun.weights[i])[at];
      change = std::max(change, std::abs(one));
      difference = std::max(difference, std::abs(one - other));
    }
  return difference / change;
}

// Of the 70 rows, steps that are alike: means of as many rows can be added up.
Case of_replicas(int count, const std::string& consistency, int workers = 1) {
  Case c{.workers = workers, .batch = 7, .micro_batches = 3, .steps = 3, .optimizer = {}};
  c.optimizer.learning_rate = 0.05;
  c.replicas = {.count = count, .consistency = parse_consistency(consistency)};
  return c;
}

// One worker with the rows of all.
Case of_one(const Case& c, double rate) {
  Case one = c;
  one.workers = 1;
  one.schedule = "1f1b";
  one.binding = {};
  one.cut = partitioner::Cut::kLayer;
  one.batch = c.batch * c.replicas.count;
  one.optimizer.learning_rate = rate;
  one.replicas = {};
  return one;
}

struct Shape {
  int replicas;
  int workers;
  partitioner::Cut cut;
};
class SharedWeightsOf : public testing::TestWithParam<Shape> {};

TEST_P(SharedWeightsOf, SynchronousTablesTakeTheSumOfAllGradients) {
  Case c = of_replicas(GetParam().replicas, "ssp:0", GetParam().workers);
  c.cut = GetParam().cut;
  const Answer shared = train(c);
  const Answer alone = train(of_one(c, 0.05 * c.replicas.count));
  expect_near(shared, alone, 2e-5);
  for (size_t step = 0; step < alone.losses.size(); ++step)
    EXPECT_NEAR(shared.losses[step], alone.losses[step], 1e-5) << step;
  EXPECT_EQ(shared.trained_rows, alone.trained_rows);
  EXPECT_EQ(shared.evaluated_rows, alone.evaluated_rows);
  EXPECT_EQ(shared.correct, alone.correct);
  EXPECT_NEAR(shared.evaluation_loss, alone.evaluation_loss, 1e-5);
  EXPECT_THAT(shared.staleness, testing::Each(0));
  if (c.workers > 1) tests::expect_counted_as_predicted(shared);
  tests::expect_memory_as_predicted(shared);
}

TEST_P(SharedWeightsOf, AnAverageOfOneStepIsTheMeanOfAllGradients) {
  Case c = of_replicas(GetParam().replicas, "average:1", GetParam().workers);
  c.cut = GetParam().cut;
  expect_near(train(c), train(of_one(c, 0.05)), 2e-5);
}

TEST_P(SharedWeightsOf, SynchronousTablesGiveTheSameBitsAgain) {
  for (const char* consistency : {"ssp:0", "average:2"}) {
    Case c = of_replicas(GetParam().replicas, consistency, GetParam().workers);
    c.cut = GetParam().cut;
    c.optimizer.momentum = 0.9;
    tests::expect_same_bits(train(c), train(c));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, SharedWeightsOf,
                         testing::Values(Shape{2, 1, partitioner::Cut::kLayer},
                                         Shape{3, 1, partitioner::Cut::kLayer},
                                         Shape{2, 2, partitioner::Cut::kLayer},
                                         Shape{2, 2, partitioner::Cut::kBatch},
                                         Shape{2, 2, partitioner::Cut::kFeature}));

// With steps so small that no gradient depends on how far others came, every way comes to the sum
// of all gradients: none is lost, and none counts twice.
TEST(SharedWeights, NoGradientIsLostOrCountsTwice) {
  const double rate = 1e-4;
  Case begun = of_one(of_replicas(2, "ssp:0"), rate);
  begun.steps = 0;
  const Answer before = train(begun);
  Case small = of_replicas(4, "async", 2);
  small.optimizer.learning_rate = rate;
  small.batch = 5;
  const Answer alone = train(of_one(small, 4 * rate));
  struct Way {
    const char* consistency;
    int groups = 1;
    int64_t push = 1, fetch = 1;
  };
  for (const Way& way : {Way{"ssp:2"},
                         {"async"},
                         {"async", 2},
                         {"async", 4},
                         {"async", 1, 2, 3},
                         {"async", 2, 3, 2}}) {
    Case c = small;
    c.replicas.consistency = parse_consistency(way.consistency);
    c.replicas.server_groups = way.groups;
    c.replicas.push_every = way.push;
    c.replicas.fetch_every = way.fetch;
    const Answer shared = train(c);
    EXPECT_LT(difference_of_changes(before, alone, shared), 0.01)
        << way.consistency << ", " << way.groups << " groups, " << way.push << ", " << way.fetch;
  }
  Case average = small;
  average.replicas.consistency = parse_consistency("average:2");
  EXPECT_LT(difference_of_changes(before, train(of_one(small, rate)), train(average)), 0.01);
}

// With one row for three replicas, two of them have none in the last step of an epoch.
TEST(SharedWeights, AReplicaWithoutRowsKeepsStep) {
  for (const char* consistency : {"ssp:0", "ssp:1", "async", "average:2"}) {
    Case c = of_replicas(3, consistency, 2);
    c.batch = 23;
    c.steps = 4;
    const Answer shared = train(c);
    EXPECT_EQ(shared.trained_rows, 140) << consistency;
    EXPECT_EQ(shared.evaluations.size(), 2U);
    for (const double loss : shared.losses) EXPECT_TRUE(std::isfinite(loss));
    tests::expect_counted_as_predicted(shared);
  }
}

// The replica that has the row without a number pushes nothing in that step; the others go on.
TEST(SharedWeights, AStepThatIsNotFiniteIsTheReplicasOwn) {
  for (const char* consistency : {"ssp:0", "async", "average:1"}) {
    Case c = of_replicas(2, consistency);
    c.dataset = "rows, one odd";
    c.steps = 10;
    const Answer shared = train(c);
    EXPECT_THAT(shared.skipped, testing::Each(testing::IsEmpty())) << consistency;
    EXPECT_EQ(std::ranges::count(shared.left_out, 1), 2) << "once an epoch";
    for (const double loss : shared.losses) EXPECT_TRUE(std::isfinite(loss));
    for (const NamedTensor& each : shared.weights)
      for (int64_t at = 0; at < each.shape.elements(); ++at)
        ASSERT_TRUE(std::isfinite(numbers_of(each)[at])) << each.name;
  }
}

// The last step of an epoch has one row. Where that is the one without a number, two of three
// replicas have nothing to say, and so nobody has.
TEST(SharedWeights, AStepOfNobodyIsSkipped) {
  Case c = of_replicas(3, "ssp:0");
  c.dataset = "rows, one odd";
  c.batch = 23;
  c.steps = 1200;
  const Answer shared = train(c);
  int skipped = 0;
  for (size_t step = 1; step < shared.skipped.size(); step += 2) {
    const bool is_odd = !shared.skipped[step].empty();
    EXPECT_EQ(is_odd, !std::isfinite(shared.losses[step])) << step;
    EXPECT_NE(shared.losses[step], 0) << step;
    if (is_odd) ++skipped;
  }
  const auto left_out = std::ranges::count(shared.left_out, 1);
  EXPECT_GT(skipped, 0);
  EXPECT_EQ(skipped + left_out, 600) << "once in each epoch, alone or among others";
}

TEST(SharedWeights, ReplicasDropOtherElements) {
  Case c = of_replicas(2, "ssp:0");
  c.source = "dropping";
  const Answer shared = train(c);
  EXPECT_NE(shared.losses, train(of_one(c, 0.1)).losses);
  tests::expect_same_bits(train(c), shared);
}

// Whatever the periods are, what statistics grow by is pushed once.
TEST(SharedWeights, StatisticsGrowOnceUnderAnyPeriods) {
  Case c = of_replicas(2, "ssp:0");
  c.source = "filtering";
  c.optimizer.learning_rate = 1e-6;
  c.steps = 10;
  const Answer often = train(c);
  c.replicas.consistency = parse_consistency("async");
  for (const auto& [push, fetch] : {std::pair(1, 4), {4, 1}, {3, 2}}) {
    c.replicas.push_every = push;
    c.replicas.fetch_every = fetch;
    const Answer seldom = train(c);
    for (size_t i = 0; i < often.weights.size(); ++i) {
      if (often.weights[i].name.find("running") == std::string::npos) continue;
      double apart = 0;
      double size = 0;
      for (int64_t at = 0; at < often.weights[i].shape.elements(); ++at) {
        const double one = numbers_of(often.weights[i])[at];
        apart += std::abs(numbers_of(seldom.weights[i])[at] - one);
        size += std::abs(one - (often.weights[i].name.ends_with("var") ? 1 : 0));
      }
      EXPECT_LT(apart, 0.3 * size) << often.weights[i].name << " " << push << " " << fetch;
    }
  }
}

// Adam at the tables, or at each replica, with its states: on separable rows the loss falls.
TEST(SharedWeights, OptimizersWithStatesLearn) {
  for (const char* optimizer : {"adam", "adamw", "adagrad"})
    for (const char* consistency : {"ssp:1", "async", "average:3"}) {
      Case c = of_replicas(2, consistency);
      c.optimizer.name = optimizer;
      c.optimizer.learning_rate = 0.01;
      c.optimizer.weight_decay = 0.001;
      c.optimizer.most_norm = 5;
      c.steps = 30;
      const Answer shared = train(c);
      const double least = *std::ranges::min_element(shared.losses);
      EXPECT_LT(least, 0.9 * shared.losses.front()) << optimizer << consistency;
      tests::expect_memory_as_predicted(shared);
    }
}

// As far as micro-batches of fewer rows say the same: what began as 0 and 1 is where one worker has
// it that sees all rows, and where neither replica alone would be.
TEST(SharedWeights, RunningStatisticsAreThoseOfAll) {
  Case c = of_replicas(2, "ssp:0");
  c.source = "filtering";
  c.optimizer.learning_rate = 1e-6;
  const Answer shared = train(c);
  const Answer alone = train(of_one(c, 2e-6));
  int64_t statistics = 0;
  for (size_t i = 0; i < alone.weights.size(); ++i) {
    if (alone.weights[i].name.find("running") == std::string::npos) continue;
    double apart = 0;
    double size = 0;
    for (int64_t at = 0; at < alone.weights[i].shape.elements(); ++at, ++statistics) {
      const double one = numbers_of(alone.weights[i])[at];
      apart += std::abs(numbers_of(shared.weights[i])[at] - one);
      size += std::abs(one - (alone.weights[i].name.ends_with("var") ? 1 : 0));
    }
    EXPECT_GT(size, 0);
    EXPECT_LT(apart, 0.3 * size) << alone.weights[i].name;
  }
  EXPECT_EQ(statistics, 80) << "of 40 channels";
}

TEST(SharedWeights, AWorkerMayHaveSeveralParts) {
  Case c = of_replicas(2, "ssp:0", 4);
  c.schedule = "gpipe";
  c.source = "12-24-18-16-10-5";
  c.binding = {0, 1, 0, 1};
  const Answer shared = train(c);
  EXPECT_EQ(shared.workers.size(), 4U);
  EXPECT_EQ(shared.plan.parts(), 4);
  expect_near(shared, train(of_one(c, 0.1)), 2e-5);
  c.replicas.consistency = parse_consistency("average:1");
  expect_near(train(c), train(of_one(c, 0.05)), 2e-5);
}

TEST(SharedWeights, WhatDoesNotGoTogetherIsRefused) {
  const auto refused = [](const Case& c) { return kerf::tests::error_of([&] { train(c); }); };
  const auto why = [&](const std::function<void(Case&)>& spoil) {
    Case c = of_replicas(4, "async", 2);
    spoil(c);
    const auto error = refused(c);
    return error ? std::string(error->what()) : std::string();
  };
  using testing::HasSubstr;
  EXPECT_THAT(why([](Case& c) { c.replicas.consistency = {}; }), HasSubstr("the batch cut"));
  EXPECT_THAT(why([](Case& c) { c.replicas.server_groups = 3; }), HasSubstr("3 server groups"));
  EXPECT_THAT(why([](Case& c) { c.replicas.push_every = 0; }), HasSubstr("every step"));
  EXPECT_THAT(why([](Case& c) {
                c.replicas.consistency = parse_consistency("ssp:2");
                c.replicas.fetch_every = 2;
              }),
              HasSubstr("periods are of async"));
  EXPECT_THAT(why([](Case& c) {
                c.replicas.consistency = parse_consistency("average:2");
                c.replicas.server_groups = 2;
              }),
              HasSubstr("one server group"));
  EXPECT_THAT(why([](Case& c) {
                c.replicas.consistency = parse_consistency("ssp:2");
                c.replicas.server_groups = 2;
              }),
              HasSubstr("one server group"));
  EXPECT_THAT(why([](Case& c) { c.schedule = "pipedream"; }), HasSubstr("within a step"));
}

// They would drift apart: each has a table of its own.
TEST(SharedWeights, PartsThatKeepTheSameWeightAreRefusedByItsName) {
  const partitioner::Model model = tests::make_model("12-24-5");
  const partitioner::Plan plan = tests::plan_of(model, {"12-24-5"});
  std::vector<partitioner::Part> parts = lower(model, plan);
  const ReplicaOptions replicas = of_replicas(2, "async").replicas;
  EXPECT_EQ(weight_tables(model, parts, 1, {}, replicas).size(), 1U);
  parts.push_back(parts.front());
  const auto error = kerf::tests::error_of([&] { weight_tables(model, parts, 1, {}, replicas); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), testing::AllOf(testing::HasSubstr("fc1.weight"),
                                            testing::HasSubstr("several parts of a replica")));
}

TEST(Consistencies, AreReadAndWritten) {
  for (const char* text : {"sync", "ssp:0", "ssp:12", "async", "average:1", "average:100"})
    EXPECT_EQ(to_string(parse_consistency(text)), text);
  for (const char* text : {"", "ssp", "ssp:", "ssp:-1", "ssp:1.5", "ssp:3x", "average:0", "average",
                           "async:1", "ssp:99999999999", "Sync"})
    EXPECT_TRUE(kerf::tests::error_of([&] { parse_consistency(text); })) << text;
}

TEST(RowsOfReplicas, AreEvenAndCoverAll) {
  for (const int replicas : {1, 2, 3, 7})
    for (const int64_t rows : {0, 1, 6, 7, 100}) {
      int64_t end = 5;
      for (int replica = 0; replica < replicas; ++replica) {
        const ops::Range part = rows_of_replica({5, 5 + rows}, replica, replicas);
        EXPECT_EQ(part.begin, end);
        EXPECT_GE(part.size(), rows / replicas);
        EXPECT_LE(part.size(), rows / replicas + 1);
        end = part.end;
      }
      EXPECT_EQ(end, 5 + rows);
    }
}

}  // namespace
}  // namespace kerf::schedmp
