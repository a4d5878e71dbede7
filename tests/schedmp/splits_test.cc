// Which of a data set's splits a run opens, when it says what is wrong with them, and what becomes
// of tests that training spoilt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "partitioner/cut.h"
#include "partitioner/zoo.h"
#include "schedmp/safetensors.h"
#include "schedmp/scheduler.h"
#include "schedmp/schedules.h"
#include "schedmp/training/training.h"
#include "tests/support/errors.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/random_dataset.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp {
namespace {

using kerf::tests::error_of;
using partitioner::Model;
using partitioner::Plan;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Random rows, all of them the same number where there is one.
class Rows final : public FeatureRows {
 public:
  Rows(int64_t rows, int64_t features, int64_t classes, float all = 0)
      : random_(rows, features, classes), all_(all) {}
  int64_t rows() const override { return random_.rows(); }
  int64_t features() const override { return random_.features(); }
  int64_t classes() const override { return random_.classes(); }
  std::string fingerprint() const override { return random_.fingerprint(); }
  void read_features(std::span<const int64_t> rows, const ops::TensorView& to) const override {
    if (all_ == 0) return random_.read_features(rows, to);
    std::fill_n(to.f32(), to.elements(), all_);
  }
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override {
    random_.read_labels(rows, to);
  }

 private:
  kerf::tests::RandomDataset random_;
  float all_;
};

// Notes what is opened.
struct Opened {
  std::mutex mutex;
  std::vector<Split> splits;
  int64_t worked = 0;
};

TrainingFactories factories(const std::shared_ptr<Opened>& opened = std::make_shared<Opened>()) {
  return {[](const std::string&) {
            return partitioner::make_zoo_model("mlp", {{12, 8, 5}});
          },
          [opened](const std::string& name, Split split,
                   const DataRequest& request) -> std::shared_ptr<const Dataset> {
            const std::lock_guard lock(opened->mutex);
            opened->splits.push_back(split);
            if (request.working) request.working();
            if (request.working) ++opened->worked;
            if (split == Split::kTrain) return std::make_shared<Rows>(40, 12, 5);
            if (name == "wide tests") return std::make_shared<Rows>(10, 13, 5);
            if (name == "many classes") return std::make_shared<Rows>(10, 12, 6);
            return std::make_shared<Rows>(10, 12, 5, name == "bad tests" ? NAN : 0);
          }};
}

struct Asked {
  std::string dataset = "rows";
  int64_t steps = 4;
  bool evaluate = true;
  int patience = 0;
};

class Splits : public testing::Test {
 protected:
  TrainingOptions options_of(const Asked& asked) {
    TrainingOptions options;
    options.model_source = "mlp";
    options.dataset = asked.dataset;
    options.batch = 20;
    options.epochs = 1000;
    options.steps = asked.steps;
    options.evaluate = asked.evaluate;
    options.patience = asked.patience;
    return options;
  }
  std::unique_ptr<Training> program(const TrainingOptions& options) {
    return std::make_unique<Training>(factories(opened_), model_, plan_,
                                      make_schedule("1f1b", model_, plan_), options);
  }
  void run_with_crew(Training& training) {
    const auto crew = kerf::tests::inproc_crew(
        plan_.workers_bound(), {{"training", [&] { return training_worker(factories(opened_)); }}});
    run(training, *crew, {3, 1});
    crew->stop();
  }
  Plan plan() const {
    partitioner::PlanRequest request;
    request.workers = 2;
    request.batch = 20;
    request.micro_batches = 2;
    return std::get<Plan>(partitioner::make_plan(model_, request, *in_flight_of("1f1b")));
  }

  const Model model_ = partitioner::make_zoo_model("mlp", {{12, 8, 5}});
  const Plan plan_ = plan();
  const std::shared_ptr<Opened> opened_ = std::make_shared<Opened>();
  const kerf::tests::TemporaryFolder folder_;
};

TEST_F(Splits, AreOpenedWhereTheRunReadsThem) {
  run_with_crew(*program(options_of({.evaluate = false})));
  EXPECT_THAT(opened_->splits, testing::Each(Split::kTrain));
  opened_->splits.clear();
  const auto evaluation = program(options_of({.steps = 0}));
  run_with_crew(*evaluation);
  EXPECT_THAT(opened_->splits, testing::Each(Split::kTest));
  EXPECT_EQ(evaluation->evaluations().back().rows, 10);
  EXPECT_EQ(evaluation->labels_per_row(), 1);
  opened_->splits.clear();
  program(options_of({}));
  EXPECT_THAT(opened_->splits, ElementsAre(Split::kTrain, Split::kTest));
}

TEST_F(Splits, WorkersSayThatTheyAreAtWorkWhileTheyOpenThem) {
  run_with_crew(*program(options_of({})));
  EXPECT_EQ(opened_->worked, 4) << "two workers, two splits";
}

TEST_F(Splits, TestsThatDoNotFitAreToldBeforeTheRun) {
  const auto complaint = [&](const Asked& asked) {
    const auto error = error_of([&] { program(options_of(asked)); });
    return error ? std::string(error->what()) : "";
  };
  EXPECT_THAT(complaint({.dataset = "wide tests"}),
              AllOf(HasSubstr("wide tests"), HasSubstr("13 features")));
  EXPECT_THAT(complaint({.dataset = "many classes"}), HasSubstr("6 classes"));
  EXPECT_EQ(complaint({.dataset = "wide tests", .evaluate = false}), "");
}

TEST_F(Splits, TestsWhoseLossIsNotFiniteEndNoTraining) {
  TrainingOptions options = options_of({.dataset = "bad tests"});
  options.shards = folder_ / "shards";
  std::filesystem::create_directories(options.shards);
  const auto training = program(options);
  run_with_crew(*training);
  ASSERT_EQ(training->evaluations().size(), 2U);
  for (const EvaluationRecord& each : training->evaluations()) EXPECT_TRUE(std::isnan(each.loss));
  EXPECT_TRUE(training->evaluations().back().kept);
  join_weights(model_, plan_, options.shards, folder_ / "w.safetensors");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "w.safetensors"));
}

TEST_F(Splits, ALossThatIsNotFiniteIsNotLower) {
  TrainingOptions options = options_of({.dataset = "bad tests", .steps = 400, .patience = 2});
  options.shards = folder_ / "shards";
  std::filesystem::create_directories(options.shards);
  const auto training = program(options);
  run_with_crew(*training);
  ASSERT_EQ(training->evaluations().size(), 2U) << "two in vain";
  EXPECT_FALSE(training->evaluations().front().kept);
  EXPECT_TRUE(training->evaluations().back().kept) << "the last, where none was finite";
  join_weights(model_, plan_, options.shards, folder_ / "w.safetensors");
}

TEST_F(Splits, WeightsThatOnlyGiveNoFiniteLossAreRefused) {
  std::vector<NamedTensor> weights;
  for (const partitioner::ValueId id : model_.parameters()) {
    const partitioner::Value& value = model_.value(id);
    std::vector<float> numbers(static_cast<size_t>(value.spec.shape.elements()), NAN);
    weights.push_back({value.name, value.spec.dtype, value.spec.shape,
                       std::string(reinterpret_cast<const char*>(numbers.data()),
                                   numbers.size() * sizeof(float))});
  }
  write_safetensors(folder_ / "w.safetensors", weights);
  TrainingOptions options = options_of({.steps = 0});
  options.weights = folder_ / "w.safetensors";
  const auto training = program(options);
  const auto error = error_of([&] { run_with_crew(*training); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("the loss of these weights is no finite number"));
}

TEST_F(Splits, TestsThatAreNotFiniteAreNotBlamedOnTheWeights) {
  const auto training = program(options_of({.dataset = "bad tests", .steps = 0}));
  const auto error = error_of([&] { run_with_crew(*training); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(),
              AllOf(HasSubstr("bad tests: row 0 of image of the tests is not finite"),
                    testing::Not(HasSubstr("weights"))));
}

TEST_F(Splits, ThatAreOpenAreNotOpenedAgain) {
  const TrainingOptions options = options_of({});
  const OpenSplits data =
      open_splits(factories(opened_).dataset, "rows", {{}, &model_}, true, true);
  EXPECT_THAT(opened_->splits, ElementsAre(Split::kTrain, Split::kTest));
  Training training(factories(opened_), model_, plan_, make_schedule("1f1b", model_, plan_),
                    options, {}, data);
  EXPECT_EQ(opened_->splits.size(), 2U);
  run_with_crew(training);
  EXPECT_EQ(opened_->splits.size(), 2U + 4U) << "by two workers";
  EXPECT_EQ(training.evaluations().back().rows, 10);
}

// Workers have a batch each, and wait for the next while the scheduler has handed out more.
TEST_F(Splits, ABatchTakesAsLongAsWorkersHaveIt) {
  TrainingOptions options = options_of({.steps = 0});
  options.batch = 2;
  const auto training = program(options);
  run_with_crew(*training);
  const auto& times = training->evaluation_times();
  ASSERT_GE(times.size(), 2U);
  for (size_t batch = 0; batch < times.size(); ++batch) {
    ASSERT_EQ(times[batch].size(), 2U);
    for (size_t worker = 0; worker < 2; ++worker) {
      EXPECT_LT(times[batch][worker].begin_ns, times[batch][worker].end_ns);
      if (batch > 0) {
        EXPECT_GE(times[batch][worker].begin_ns, times[batch - 1][worker].end_ns);
      }
    }
  }
  EXPECT_GT(training->seconds_between(), 0);
}

}  // namespace
}  // namespace kerf::schedmp
