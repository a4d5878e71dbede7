// The wide operators, trained divided: attention by head, recurrences by samples, embeddings by
// vocabulary and by features, stretches of tensors. Tokens come from the data as whole numbers.
// Every division trains as one worker does, and sends what was predicted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "partitioner/cut.h"
#include "runtime/error.h"
#include "schedmp/scheduler.h"
#include "schedmp/schedules.h"
#include "schedmp/training/training.h"
#include "tests/partitioner/wide_models.h"
#include "tests/support/errors.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/random_dataset.h"

namespace kerf::schedmp {
namespace {

using partitioner::Cut;
using partitioner::Model;
using partitioner::Plan;
using partitioner::PlanRequest;
using partitioner::testing::kLength;
using partitioner::testing::kVocabulary;
using partitioner::testing::kWidth;

// Rows of random tokens; the label of each is the sum of it and the one before.
class TokenRows final : public Dataset {
 public:
  int64_t rows() const override { return 46; }
  std::optional<ops::ValueSpec> input(std::string_view name) const override {
    if (name == "places")
      return ops::ValueSpec{ops::DType::kFloat32, {ops::kBatch, kLength, kWidth}};
    if (name != "tokens") return {};
    return ops::ValueSpec{ops::DType::kInt64, {ops::kBatch, kLength}};
  }
  ops::Shape labels() const override { return {ops::kBatch, kLength}; }
  int64_t classes() const override { return kVocabulary; }
  std::string fingerprint() const override { return "sums"; }
  void read_input(std::string_view name, std::span<const int64_t> rows,
                  const ops::TensorView& to) const override {
    if (name != "places") return fill(rows, to, token);
    for (int64_t i = 0; i < to.elements(); ++i)
      to.f32()[i] = static_cast<float>(i % (kLength * kWidth)) / 16;
  }
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override {
    fill(rows, to, [](int64_t row, int64_t i) {
      return (token(row, i) + (i > 0 ? token(row, i - 1) : 0)) % kVocabulary;
    });
  }

 private:
  static int64_t token(int64_t row, int64_t i) {
    return ops::philox({static_cast<uint32_t>(row), static_cast<uint32_t>(i), 0, 0}, {1, 2})[0] %
           kVocabulary;
  }
  template <class At>
  static void fill(std::span<const int64_t> rows, const ops::TensorView& to, const At& at) {
    for (size_t r = 0; r < rows.size(); ++r)
      for (int64_t i = 0; i < kLength; ++i)
        to.i64()[static_cast<int64_t>(r) * kLength + i] = at(rows[r], i);
  }
};

Model make_model(const std::string& source) {
  using namespace partitioner::testing;
  if (source == "attention") return attention();
  if (source == "placed") return placed();
  if (source == "recurrent") return recurrent();
  return source == "tied" ? tied() : stretches();
}

TrainingFactories factories() {
  return {make_model,
          [](const std::string& name, Split split,
             const DataRequest&) -> std::shared_ptr<const Dataset> {
            if (name == "tokens") return std::make_shared<TokenRows>();
            return std::make_shared<tests::RandomDataset>(split == Split::kTrain ? 46 : 20, 12, 5);
          }};
}

struct Answer {
  std::vector<double> losses;
  EvaluationRecord evaluation;
  std::vector<RouteFigures> routes;
};

// Steps of 14 rows in micro-batches of 5, 5 and 4; the last of an epoch has 4 in all.
Answer train(const std::string& source, const std::string& shares, int workers) {
  PlanRequest request;
  request.cut = workers == 1 ? Cut::kLayer : Cut::kFree;
  request.workers = workers;
  request.batch = 14;
  request.micro_batches = 3;
  request.schedule = "1f1b";
  request.shares = "{\"kerf_shares\": 1, \"shares\": " + shares + "}";
  request.shares_origin = "shares";
  const Model model = partitioner::model_for(make_model(source), request);
  const Plan plan = std::get<Plan>(partitioner::make_plan(model, request, *in_flight_of("1f1b")));
  TrainingOptions options;
  options.model_source = source;
  options.dataset = source == "stretches" ? "rows" : "tokens";
  options.batch = request.batch;
  options.steps = 9;
  options.optimizer.learning_rate = 0.1;
  options.optimizer.momentum = 0.9;
  Training program(factories(), model, plan, make_schedule("1f1b", model, plan), options);
  const auto crew =
      tests::inproc_crew(workers, {{"training", [] { return training_worker(factories()); }}});
  run(program, *crew, {3, 1});
  crew->stop();
  Answer answer{{}, program.evaluations().back(), program.routes()};
  for (const StepRecord& step : program.steps()) answer.losses.push_back(step.loss);
  return answer;
}

struct Division {
  std::string name;
  std::string source;
  std::string shares;
  int workers = 2;
  double tolerance = 1e-5;  // relative, of every step's loss
};

class Wide : public testing::TestWithParam<Division> {};

TEST_P(Wide, TrainsDividedAsOnOneWorker) {
  const Division& division = GetParam();
  const Answer alone = train(division.source, "{}", 1);
  const Answer together = train(division.source, division.shares, division.workers);
  ASSERT_EQ(together.losses.size(), 9U);
  EXPECT_GT(std::abs(alone.losses.back() - alone.losses.front()), 1e-3) << "nothing is trained";
  for (size_t step = 0; step < 9; ++step)
    EXPECT_NEAR(together.losses[step], alone.losses[step], division.tolerance * alone.losses[step])
        << step;
  EXPECT_EQ(together.evaluation.correct, alone.evaluation.correct);
  EXPECT_EQ(together.evaluation.labels_per_row, division.source == "stretches" ? 1 : kLength);
  EXPECT_FALSE(together.routes.empty());
  for (const RouteFigures& route : together.routes) {
    EXPECT_EQ(route.messages, route.predicted_messages);
    EXPECT_EQ(route.bytes, route.predicted_bytes);
    EXPECT_GT(route.messages, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Operators, Wide,
    testing::Values(
        // Each worker has the columns of q, k and v of its head, and its rows of the way out.
        Division{
            "AttentionByHead", "attention",
            R"({"qkv": {"0": {"columns": "0-3,8-11,16-19"}, "1": {"columns": "4-7,12-15,20-23"}},
                     "out": {"0": {"inner": "0-3"}, "1": {"inner": "4-7"}}})"},
        Division{"AttentionByHeadAndSample", "attention",
                 R"({"qkv": {"0": {"columns": "0-3,8-11,16-19", "samples": "0-1"},
                             "1": {"columns": "4-7,12-15,20-23", "samples": "0-1"},
                             "2": {"samples": "2-4"}},
                     "out": {"0": {"inner": "0-3", "samples": "0-1"},
                             "1": {"inner": "4-7", "samples": "0-1"}, "2": {"samples": "2-4"}}})",
                 3},
        Division{"LstmBySamples", "recurrent",
                 R"({"lstm": {"0": {"samples": "0-1"}, "1": {"samples": "2"},
                              "2": {"samples": "3-4"}}})",
                 3},
        // Homes and rows of the table lie together, and so do the classes of the loss.
        Division{"TiedEmbeddingByVocabulary", "tied",
                 R"({"embedding": {"0": {"vocabulary": "0-3"}, "1": {"vocabulary": "4-8"}},
                     "scores": {"0": {"outputs": "0-3"}, "1": {"outputs": "4-8"}},
                     "loss": {"0": {"classes": "0-3"}, "1": {"classes": "4-8"}}})"},
        Division{"TiedEmbeddingByFeatures", "tied",
                 R"({"embedding": {"0": {"features": "0-2"}, "1": {"features": "3-7"}},
                     "mix": {"0": {"inner": "0-2"}, "1": {"inner": "3-7"}}})"},
        // No sum is divided: every bit is the same.
        Division{"EmbeddingByFeatures", "recurrent",
                 R"({"embedding": {"0": {"features": "0,2-3"}, "1": {"features": "1,4-5"}},
                     "lstm": {"1": "all"}, "lstm.sequence": {"1": "all"}, "rows": {"1": "all"},
                     "scores": {"0": "all"}, "by_row": {"0": "all"}, "by_token": {"0": "all"}})",
                 2, 0},
        Division{"StretchesByFeatures", "stretches",
                 R"({"fc1": {"1": "all"}, "split": {"0": {"features": "0-3,8-9"},
                                                             "1": {"features": "4-7,10-11"}},
                     "relu": {"0": "0-1,4", "1": "2-3"},
                     "concat": {"0": "0-4,9", "1": "5-8,10-11"}, "fc2": {"0": "all"}})",
                 2, 0}),
    [](const auto& each) { return each.param.name; });

// Whole numbers and fractions, each by the name of the model's input.
TEST(Dataset, FeedsInputsOfSeveralTypesByName) {
  const Answer alone = train("placed", "{}", 1);
  const Answer together = train("placed",
                                R"({"embedding": {"1": "all"}, "placed": {"0": {"samples": "0-1"},
                                                                          "1": {"samples": "2-4"}}})",
                                2);
  for (size_t step = 0; step < 9; ++step)
    EXPECT_NEAR(together.losses[step], alone.losses[step], 1e-5 * alone.losses[step]) << step;
  EXPECT_GT(std::abs(alone.losses.back() - alone.losses.front()), 1e-3);
}

TEST(Dataset, WhatItCannotFeedIsNamed) {
  const auto complaint = [](const Model& model) {
    try {
      check_fits(TokenRows(), "sums", model);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("fits");
  };
  const auto model = [](const std::string& input, const ops::Shape& shape, ops::DType dtype,
                        int64_t scores) {
    partitioner::Builder b("m");
    partitioner::ValueId x = b.input(input, shape, dtype);
    if (dtype == ops::DType::kInt64) x = b.embedding(x, kVocabulary, 4);
    const partitioner::ValueId w = b.parameter("w", {4, scores}, {});
    b.loss(b.node("Transpose", {b.matmul(x, w)}, {{"perm", std::vector<int64_t>{0, 2, 1}}}));
    return b.build();
  };
  using ops::kBatch;
  constexpr auto kInt64 = ops::DType::kInt64;
  EXPECT_EQ(complaint(model("tokens", {kBatch, kLength}, kInt64, kVocabulary)), "fits");
  EXPECT_EQ(complaint(model("tokens", {kBatch, kLength}, kInt64, kVocabulary + 1)), "fits");
  EXPECT_THAT(complaint(model("words", {kBatch, kLength}, kInt64, kVocabulary)),
              testing::HasSubstr("sums: it has nothing for words, an input of m, int64"));
  EXPECT_THAT(
      complaint(model("tokens", {kBatch, kLength, 4}, ops::DType::kFloat32, kVocabulary)),
      testing::HasSubstr("5 features of int64, but tokens, an input of m, has 20 of float32"));
  EXPECT_THAT(complaint(model("tokens", {kBatch, kLength}, kInt64, kVocabulary - 1)),
              testing::HasSubstr("it has 9 classes, but m gives 8 scores"));
}

// Rows that fit any name would be both inputs.
TEST(Dataset, FeedsSeveralInputsByTheirNamesOnly) {
  partitioner::Builder b("two");
  const partitioner::ValueId ids = b.input("ids", {ops::kBatch, 12});
  const partitioner::ValueId mask = b.input("mask", {ops::kBatch, 12});
  b.loss(b.gemm(b.add(ids, mask), 5));
  const auto error =
      tests::error_of([&] { check_fits(tests::RandomDataset(8, 12, 5), "rows", b.build()); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), testing::HasSubstr("rows: it has nothing by the name of ids, and two "
                                                "has 2 inputs: ids, mask"));
}

}  // namespace
}  // namespace kerf::schedmp
