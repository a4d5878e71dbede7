// Full-batch L-BFGS whose gradient is computed in portions, by any replicas of any plan, against
// one worker that has all rows in one portion.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "runtime/error.h"
#include "schedmp/scheduler.h"
#include "schedmp/schedules.h"
#include "schedmp/training/lbfgs_weights.h"
#include "tests/schedmp/trained.h"
#include "tests/support/errors.h"
#include "tests/support/inproc_crew.h"

namespace kerf::schedmp {
namespace {

using partitioner::Cut;
using tests::Answer;
using tests::Case;
using tests::train;

constexpr int64_t kRows = 70;  // of the training data

Case by_lbfgs(int replicas = 1, int workers = 1, Cut cut = Cut::kLayer) {
  Case c{.source = "12-10-5", .cut = cut, .workers = workers, .batch = 8, .micro_batches = 3};
  c.optimizer = {};
  c.replicas.count = replicas;
  c.lbfgs = LbfgsOptions{.most_iterations = 12};
  return c;
}

Case of_one_portion(Case c) {
  c.batch = kRows;
  return c;
}

int64_t sum_of(const std::vector<int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
}

std::vector<double> numbers_of(const Answer& answer) {
  std::vector<double> all;
  for (const NamedTensor& tensor : answer.weights) {
    const auto* numbers = reinterpret_cast<const float*>(tensor.bytes.data());
    all.insert(all.end(), numbers, numbers + tensor.shape.elements());
  }
  return all;
}

double product(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double norm(const std::vector<double>& a) { return std::sqrt(product(a, a)); }

// A step down the gradient of all rows, by one worker.
Case descent_by(double rate, const Case& lbfgs) {
  Case c = of_one_portion(lbfgs);
  c.lbfgs.reset();
  c.replicas = {};
  c.optimizer.learning_rate = rate;
  c.steps = 1;
  return c;
}

// By how much a run changed the weights.
std::vector<double> change_by(const Case& c) {
  Case none = c;
  none.lbfgs.reset();
  none.replicas = {};
  none.steps = 0;
  const std::vector<double> begun = numbers_of(train(none));
  std::vector<double> change = numbers_of(train(c));
  for (size_t i = 0; i < change.size(); ++i) change[i] -= begun[i];
  return change;
}

struct LbfgsShape {
  int replicas;
  int workers;
  Cut cut;
};
class LbfgsTrainingOf : public testing::TestWithParam<LbfgsShape> {
 protected:
  static Case shaped() { return by_lbfgs(GetParam().replicas, GetParam().workers, GetParam().cut); }
};

TEST_P(LbfgsTrainingOf, ComesToTheLossOfOneWorker) {
  const Answer one = train(of_one_portion(by_lbfgs()));
  const Answer divided = train(shaped());
  ASSERT_EQ(one.losses.size(), 12U);
  ASSERT_EQ(divided.losses.size(), 12U);
  for (size_t i = 0; i < one.losses.size(); ++i)
    EXPECT_NEAR(divided.losses[i], one.losses[i], 1e-5) << i;
  EXPECT_NEAR(divided.gradient_norms.back(), one.gradient_norms.back(), 1e-4);
  EXPECT_NEAR(divided.evaluation_loss, one.evaluation_loss, 1e-4);
  EXPECT_EQ(divided.evaluated_rows, 33);
}

TEST_P(LbfgsTrainingOf, EachIterationLowersTheLossOfAllRows) {
  const Answer answer = train(shaped());
  EXPECT_TRUE(std::ranges::is_sorted(answer.losses, std::greater<>()));
  EXPECT_LT(answer.losses.back(), 0.8 * answer.losses.front());
  EXPECT_EQ(answer.trained_rows, 12 * kRows);
  EXPECT_EQ(answer.lbfgs->reason(), "12 iterations are as many as were allowed");
}

// 70 rows are 9 portions of 8, the last of 6.
TEST_P(LbfgsTrainingOf, DoesEachPortionOnce) {
  const Answer answer = train(shaped());
  EXPECT_EQ(sum_of(answer.portions), 9 * answer.lbfgs->evaluations());
  if (GetParam().workers > 1) tests::expect_counted_as_predicted(answer);
  tests::expect_memory_as_predicted(answer);
}

// With one point more, its direction is the gradient's.
TEST_P(LbfgsTrainingOf, GoesAlongTheGradientFirst) {
  Case lbfgs = shaped();
  lbfgs.lbfgs->most_iterations = 1;
  const std::vector<double> a = change_by(lbfgs);
  const std::vector<double> b = change_by(descent_by(1, by_lbfgs()));
  EXPECT_NEAR(product(a, b) / (norm(a) * norm(b)), 1, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, LbfgsTrainingOf,
    testing::Values(LbfgsShape{1, 1, Cut::kLayer}, LbfgsShape{3, 1, Cut::kLayer},
                    LbfgsShape{1, 2, Cut::kLayer}, LbfgsShape{3, 2, Cut::kLayer},
                    LbfgsShape{1, 2, Cut::kFeature}, LbfgsShape{3, 2, Cut::kFeature},
                    LbfgsShape{1, 2, Cut::kBatch}, LbfgsShape{2, 2, Cut::kBatch}));

TEST(LbfgsTraining, GivesTheSameBitsAgain) {
  const Case c = by_lbfgs(1, 2);
  const Answer answer = train(c);
  tests::expect_same_bits(train(c), answer);
  tests::expect_same_when_late(c, answer);
}

TEST(LbfgsTraining, ConvergesWhereTheGradientVanishes) {
  Case c = by_lbfgs(2);
  c.source = "12-5";
  c.lbfgs = LbfgsOptions{.most_iterations = 500, .most_gradient = 1e-2};
  const Answer answer = train(c);
  EXPECT_TRUE(answer.lbfgs->converged());
  EXPECT_LE(answer.lbfgs->largest_gradient(), 1e-2);
  EXPECT_EQ(std::ssize(answer.losses), answer.lbfgs->iterations());
}

// What is left out at random is the same of each portion, whoever does it and how often.
TEST(LbfgsTraining, DropoutIsPartOfTheFunction) {
  Case c = by_lbfgs(1);
  c.source = "dropping";
  const Answer one = train(c);
  c.replicas.count = 3;
  const Answer three = train(c);
  EXPECT_TRUE(std::ranges::is_sorted(one.losses, std::greater<>()));
  for (size_t i = 0; i < one.losses.size(); ++i)
    EXPECT_NEAR(three.losses[i], one.losses[i], 1e-4) << i;
  c.lbfgs = LbfgsOptions{.most_iterations = 500, .most_gradient = 1e-4};
  EXPECT_TRUE(train(c).lbfgs->converged());
}

// A step of descent to the same point finds the same loss there. Kernels of convolutions keep
// weights in an order of their own.
TEST(LbfgsTraining, TheLossIsThatOfThePoint) {
  for (const char* source : {"12-10-5", "filtering, plain"}) {
    Case lbfgs = by_lbfgs(2);
    lbfgs.source = source;
    lbfgs.lbfgs->most_iterations = 1;
    Case descent = descent_by(1, lbfgs);
    descent = descent_by(norm(change_by(lbfgs)) / norm(change_by(descent)), lbfgs);
    descent.steps = 2;
    EXPECT_NEAR(train(lbfgs).losses[0], train(descent).losses[1], 1e-5) << source;
  }
}

// The worker's half, which takes its time first.
class SlowTraining final : public runtime::Handler {
 public:
  explicit SlowTraining(int slow_worker)
      : slow_worker_(slow_worker), training_(training_worker(tests::factories())) {}
  void start(runtime::Workplace& workplace, std::string_view job) override {
    is_slow_ = workplace.worker == slow_worker_;
    training_->start(workplace, job);
  }
  std::string update(std::string_view task) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(is_slow_ ? 40 : 2));
    return training_->update(task);
  }

 private:
  const int slow_worker_;
  bool is_slow_ = false;
  std::unique_ptr<runtime::Handler> training_;
};

TEST(LbfgsTraining, AFasterReplicaDoesMorePortions) {
  Case c = by_lbfgs(2);
  c.batch = 2;
  c.micro_batches = 1;
  const partitioner::Model model = tests::make_model(c.source);
  const partitioner::Plan plan = tests::plan_of(model, c);
  TrainingOptions options;
  options.model_source = c.source;
  options.dataset = c.dataset;
  options.batch = c.batch;
  options.replicas = c.replicas;
  options.lbfgs = LbfgsOptions{.most_iterations = 2};
  LbfgsTraining program(tests::factories(), model, plan, make_schedule(c.schedule, model, plan),
                        options);
  const auto crew =
      kerf::tests::inproc_crew(2, {{"training", [] { return std::make_unique<SlowTraining>(1); }}});
  run(program, *crew);
  crew->stop();
  const std::vector<int64_t>& done = program.portions_of_replicas();
  EXPECT_EQ(sum_of(done), 35 * program.lbfgs().evaluations());
  EXPECT_GT(done[0], 2 * done[1]);
  EXPECT_GT(done[1], 0);
}

// Of weights and biases, a row of 256 numbers each: two tables with what waits for its clock, 25
// vectors, and of the sum a double each and floats at five places.
TEST(LbfgsTraining, CountsItsMemory) {
  Case c = by_lbfgs();
  c.source = "12-5";
  constexpr int64_t kNumbers = 2 * kSharedWidth;
  EXPECT_EQ(train(c).workers[0].table_bytes, kNumbers * (2 * 2 * 4 + 25 * 4 + 8 + 5 * 4));
}

TEST(LbfgsTraining, WhatDoesNotGoTogetherIsRefused) {
  const auto why = [](const std::function<void(Case&)>& spoil) {
    Case c = by_lbfgs(2, 2);
    spoil(c);
    const auto error = kerf::tests::error_of([&] { train(c); });
    return error ? std::string(error->what()) : std::string();
  };
  using testing::HasSubstr;
  EXPECT_THAT(why([](Case& c) { c.schedule = "pipedream"; }), HasSubstr("within a step"));
  EXPECT_THAT(why([](Case& c) { c.source = "filtering"; }), HasSubstr("running statistic"));
  EXPECT_THAT(why([](Case& c) { c.lbfgs->history = 0; }), HasSubstr("a history of 0"));
  EXPECT_THAT(why([](Case& c) { c.lbfgs->most_iterations = 0; }), HasSubstr("without an iter"));
  EXPECT_THAT(why([](Case& c) { c.dataset = "rows, one odd"; }), HasSubstr("row 30"));
}

}  // namespace
}  // namespace kerf::schedmp
