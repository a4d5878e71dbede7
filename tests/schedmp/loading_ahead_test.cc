// Rows are the same, whoever reads them and whenever; what is expected is there when it is asked
// for, and what is kept is bounded.
#include "schedmp/training/loading_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "ops/random.h"
#include "partitioner/builder.h"
#include "partitioner/zoo.h"
#include "runtime/error.h"
#include "schedmp/scheduler.h"
#include "schedmp/schedules.h"
#include "tests/schedmp/trained.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/random_dataset.h"

namespace kerf::schedmp {
namespace {

using namespace std::chrono_literals;

// A row is its number, eight times; row 13 cannot be read.
class Numbers final : public FeatureRows {
 public:
  int64_t rows() const override { return 1000; }
  int64_t features() const override { return 8; }
  int64_t classes() const override { return 2; }
  std::string fingerprint() const override { return "numbers"; }
  bool loads_ahead() const override { return true; }
  void read_features(std::span<const int64_t> rows, const ops::TensorView& to) const override {
    for (size_t i = 0; i < rows.size(); ++i) {
      while (held_ && rows[i] == 1) std::this_thread::sleep_for(1ms);
      if (rows[i] == 13) throw Error(ErrorCode::kUsage, "row 13 is no row", "numbers");
      std::fill_n(to.f32() + 8 * i, 8, static_cast<float>(rows[i]));
      ++read_;
    }
  }
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override {
    for (size_t i = 0; i < rows.size(); ++i) to.i64()[i] = rows[i] % 2;
  }
  int64_t held_bytes() const override { return 5; }
  int64_t read() const { return read_; }
  // Until go_on(), who reads row 1 waits.
  void hold() { held_ = true; }
  void go_on() { held_ = false; }

 private:
  mutable std::atomic<int64_t> read_ = 0;
  std::atomic<bool> held_ = false;
};

class Ahead : public testing::Test {
 protected:
  std::vector<float> ask(const LoadingAhead& from, const std::vector<int64_t>& rows) {
    std::vector<float> values(rows.size() * 8);
    from.read_input(
        "image", rows,
        {ops::DType::kFloat32, {std::ssize(rows), 8}, reinterpret_cast<std::byte*>(values.data())});
    std::vector<float> firsts;
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_THAT(std::span(values).subspan(8 * i, 8), testing::Each(values[8 * i]));
      firsts.push_back(values[8 * i]);
    }
    return firsts;
  }
  std::vector<float> floats(const std::vector<int64_t>& rows) { return {rows.begin(), rows.end()}; }
  void wait_for(int64_t read) {
    for (int i = 0; i < 5000 && numbers_->read() < read; ++i) std::this_thread::sleep_for(1ms);
    ASSERT_EQ(numbers_->read(), read);
  }

  std::shared_ptr<Numbers> numbers_ = std::make_shared<Numbers>();
  partitioner::Model model_ = partitioner::make_zoo_model("mlp", {{8, 2}});
};

TEST_F(Ahead, ReadsWhatIsExpectedAndNoMore) {
  LoadingAhead ahead(numbers_, model_);
  EXPECT_EQ(ask(ahead, {5}), floats({5})) << "unexpected, but told";
  EXPECT_EQ(ahead.missed(), 1);
  const std::vector<int64_t> rows{7, 3, 9};
  const std::vector<int64_t> next{4, 20};
  ahead.expect(rows, next);
  wait_for(1 + 5);
  EXPECT_EQ(ask(ahead, rows), floats(rows));
  EXPECT_EQ(ask(ahead, {3, 9}), floats({3, 9})) << "by another part";
  EXPECT_EQ(ahead.found(), 5);
  EXPECT_EQ(ahead.held_bytes(), 5 + 5 * 32);
  const std::vector<int64_t> later{21, 22};
  ahead.expect(next, later);
  wait_for(1 + 5 + 2);
  EXPECT_EQ(ask(ahead, {4, 20, 7}), floats({4, 20, 7})) << "7 is forgotten";
  EXPECT_EQ(numbers_->read(), 1 + 5 + 2 + 1);
  EXPECT_EQ(ahead.missed(), 2);
}

TEST_F(Ahead, IsTheSameHoweverFastItIsAsked) {
  LoadingAhead ahead(numbers_, model_);
  ask(ahead, {0});
  for (int64_t step = 0; step < 50; ++step) {
    std::vector<int64_t> rows;
    std::vector<int64_t> next;
    for (int64_t i = 0; i < 16; ++i) {
      rows.push_back(100 + (step * 16 + i) % 800);
      next.push_back(100 + ((step + 1) * 16 + i) % 800);
    }
    ahead.expect(rows, next);
    for (size_t at = 0; at < rows.size(); at += 4) {
      const std::vector<int64_t> part(rows.begin() + static_cast<std::ptrdiff_t>(at),
                                      rows.begin() + static_cast<std::ptrdiff_t>(at + 4));
      ASSERT_EQ(ask(ahead, part), floats(part));
    }
  }
  EXPECT_EQ(ahead.found() + ahead.missed(), 1 + 50 * 16);
}

// Rows of a step that the thread had not begun are read by who asks. Next step, they are loaded.
TEST_F(Ahead, WhatWasAskedForTooEarlyIsLoadedWhenItIsExpectedAgain) {
  LoadingAhead ahead(numbers_, model_);
  ask(ahead, {0});
  const std::vector<int64_t> rows{1, 2, 3, 4};
  numbers_->hold();
  ahead.expect(rows, {});
  EXPECT_EQ(ask(ahead, {4}), floats({4})) << "while the thread is at 1";
  EXPECT_EQ(ahead.missed(), 1 + 1);
  numbers_->go_on();
  wait_for(1 + 4);
  ahead.expect(rows, {});
  wait_for(1 + 4 + 1);
  EXPECT_EQ(ask(ahead, rows), floats(rows));
  EXPECT_EQ(ahead.found(), 4);
  EXPECT_EQ(ahead.missed(), 1 + 1);
}

TEST_F(Ahead, KeepsNoMoreThanItMay) {
  LoadingAhead ahead(numbers_, model_, 3 * 32);
  ask(ahead, {0});
  const std::vector<int64_t> rows{1, 2, 3, 4, 5};
  ahead.expect(rows, rows);
  wait_for(1 + 3);
  EXPECT_EQ(ahead.held_bytes(), 5 + 3 * 32);
  EXPECT_EQ(ask(ahead, rows), floats(rows));
  EXPECT_EQ(ahead.missed(), 1 + 2);
}

TEST_F(Ahead, WhatNobodyHasReadYetIsNotHeld) {
  LoadingAhead ahead(numbers_, model_);
  ask(ahead, {0});
  const std::vector<int64_t> rows{12, 13, 14};
  ahead.expect(rows, {});
  wait_for(1 + 2);
  EXPECT_THROW(ask(ahead, {13}), Error) << "and the thread is behind it";
  EXPECT_EQ(ask(ahead, {14}), floats({14}));
  EXPECT_EQ(ahead.held_bytes(), 5 + 2 * 32) << "13 could not be read";
  ahead.expect({}, {});
  EXPECT_EQ(ahead.held_bytes(), 5);
}

// Two inputs have one bound in common.
TEST(AheadOfTwo, InputsShareWhatMayBeHeld) {
  partitioner::Builder b("two");
  b.loss(b.gemm(b.add(b.input("a", {ops::kBatch, 8}), b.input("b", {ops::kBatch, 8})), 2));
  const partitioner::Model model = b.build();
  const auto numbers = std::make_shared<Numbers>();
  LoadingAhead ahead(numbers, model, 5 * 32);
  std::vector<float> values(4 * 8);
  const std::vector<int64_t> rows{1, 2, 3, 4};
  const ops::TensorView to{
      ops::DType::kFloat32, {4, 8}, reinterpret_cast<std::byte*>(values.data())};
  for (const char* input : {"a", "b"}) ahead.read_input(input, rows, to);
  ahead.expect(rows, {});
  for (int i = 0; i < 5000 && numbers->read() < 8 + 5; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(numbers->read(), 8 + 5);
  EXPECT_EQ(ahead.held_bytes(), 5 + 5 * 32);
  for (const char* input : {"a", "b"}) {
    ahead.read_input(input, rows, to);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], rows[i / 8]) << input;
  }
  EXPECT_EQ(ahead.found(), 5);
  EXPECT_EQ(ahead.missed(), 8 + 3);
}

TEST_F(Ahead, ARowThatCannotBeReadIsToldToWhoAsks) {
  LoadingAhead ahead(numbers_, model_);
  ask(ahead, {0});
  const std::vector<int64_t> rows{12, 13, 14};
  ahead.expect(rows, {});
  wait_for(1 + 2);
  EXPECT_EQ(ask(ahead, {12, 14}), floats({12, 14}));
  EXPECT_THROW(ask(ahead, rows), Error);
  EXPECT_EQ(ask(ahead, {14}), floats({14})) << "and it goes on";
}

// How many rows of each split were read in a run; and whether, at each of its label reads, so many
// came to be.
struct Meter {
  std::atomic<int64_t> read[2] = {};
  std::atomic<int> labels = 0;                         // reads
  std::map<int, std::pair<Split, int64_t>> wanted_by;  // the read of labels; both splits together
  std::atomic<int> in_time = 0;
};

class Metered final : public kerf::tests::RandomDataset {
 public:
  Metered(Split split, Meter& meter)
      : RandomDataset(split == Split::kTrain ? 8 : 4, 12, 5), split_(split), meter_(meter) {}
  bool loads_ahead() const override { return true; }
  void read_features(std::span<const int64_t> rows, const ops::TensorView& to) const override {
    RandomDataset::read_features(rows, to);
    meter_.read[static_cast<int>(split_)] += std::ssize(rows);
  }
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override {
    RandomDataset::read_labels(rows, to);
    const auto wanted = meter_.wanted_by.find(meter_.labels++);
    if (wanted == meter_.wanted_by.end()) return;
    const auto& [split, count] = wanted->second;
    for (int i = 0; i < 5000 && meter_.read[static_cast<int>(split)] < count; ++i)
      std::this_thread::sleep_for(1ms);
    meter_.in_time += meter_.read[static_cast<int>(split)] == count ? 1 : 0;
  }

 private:
  Split split_;
  Meter& meter_;
};

// Two epochs of two steps of 4 rows.
void train_metered(bool evaluate, bool shuffle, Meter& meter) {
  const tests::Case c{.source = "12-5", .batch = 4, .micro_batches = 1};
  const partitioner::Model model = tests::make_model(c.source);
  const TrainingFactories factories{tests::make_model,
                                    [&meter](const std::string&, Split split, const DataRequest&) {
                                      return std::make_shared<Metered>(split, meter);
                                    }};
  const partitioner::Plan plan = tests::plan_of(model, c);
  TrainingOptions options;
  options.model_source = c.source;
  options.batch = c.batch;
  options.epochs = 2;
  options.evaluate = evaluate;
  options.shuffle = shuffle;
  Training program(factories, model, plan, make_schedule(c.schedule, model, plan), options);
  const auto crew =
      kerf::tests::inproc_crew(1, {{"training", [&] { return training_worker(factories); }}},
                               [](const std::string&) { return runtime::make_device("cpu"); });
  run(program, *crew, {3, 1});
  crew->stop();
}

// Inputs are known to be wanted from the first step on. Until the labels of the second are read,
// the rows of the third came too, though it is of another epoch.
TEST(AheadOfEpochs, TheNextEpochsRowsAreExpected) {
  Meter meter;
  meter.wanted_by = {{1, {Split::kTrain, 8 + 4}}};
  train_metered(false, false, meter);
  EXPECT_EQ(meter.in_time, 1);
}

// Steps 0 and 1, a test, steps 2 and 3, a test.
TEST(AheadOfEpochs, TestsRowsAreExpectedBeforeThemAndTrainingRowsWithinThem) {
  Meter meter;
  meter.wanted_by = {{2, {Split::kTrain, 8 + 4}}, {4, {Split::kTest, 4 + 4}}};
  train_metered(true, false, meter);
  EXPECT_EQ(meter.in_time, 2);
  EXPECT_EQ(meter.read[0], 16);
  EXPECT_EQ(meter.read[1], 8);
}

TEST(AheadOfEpochs, ShuffledRowsAreThoseOfTheirEpoch) {
  Meter meter;
  const std::vector<int64_t> first = ops::permutation(8, 1, 0);
  const std::vector<int64_t> second = ops::permutation(8, 1, 1);
  ASSERT_NE(first, second);
  // What both have is read once.
  const std::set<int64_t> held(first.begin() + 4, first.end());
  const auto more = std::count_if(second.begin(), second.begin() + 4,
                                  [&](int64_t row) { return !held.contains(row); });
  meter.wanted_by = {{1, {Split::kTrain, 8 + more}}};
  train_metered(false, true, meter);
  EXPECT_EQ(meter.in_time, 1);
}

}  // namespace
}  // namespace kerf::schedmp
