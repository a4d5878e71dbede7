// The adjoint test of crossing.h: of random models under random divisions, and of what cuts and
// files insert.
#include <gmock/gmock.h>

#include <algorithm>

#include "partitioner/builder.h"
#include "partitioner/cut.h"
#include "partitioner/rewrite.h"
#include "partitioner/zoo.h"
#include "tests/partitioner/crossing.h"
#include "tests/partitioner/sample_models.h"
#include "tests/partitioner/wide_models.h"

namespace kerf::partitioner {
namespace {

class Adjoint : public ::testing::TestWithParam<int> {};

TEST_P(Adjoint, OfEveryActivationUnderRandomDivisions) {
  Random random(static_cast<Random::result_type>(GetParam()));
  for (int round = 0; round < 10; ++round) {
    const Model model = random_model(random);
    expect_adjoint(model,
                   random_division(model, 1 + GetParam() % 5, kCrossingSamples + round % 4, random),
                   random);
  }
}

// Of pieces that rewrites make, and of operators with several outputs.
TEST_P(Adjoint, OfRewrittenAndWideModels) {
  Random random(static_cast<Random::result_type>(GetParam()));
  const std::vector<Model> models{
      rewritten(random_model(random), {{"split-cross-entropy", "loss", {0, 1, 4}}}),
      rewritten(testing::normalized_images(),
                {{"sync-batch-norm", "bn1"}, {"sync-batch-norm", "bn2"}}),
      rewritten(make_zoo_model("lstm-lm", {{3, 8, 4, 6}}), {{"unroll-lstm", "lstm"}}),
      testing::attention(),
      testing::tied(),
      testing::stretches()};
  for (const Model& model : models)
    expect_adjoint(model, random_division(model, 1 + GetParam() % 5, kCrossingSamples + 1, random),
                   random);
}

// What feature and hybrid cuts insert by themselves: pairs, heads, normalisations and losses that
// exchange sums, groups of channels; and by sample what has one feature.
class AdjointOfSpread : public ::testing::TestWithParam<std::string> {};

TEST_P(AdjointOfSpread, OfEveryActivation) {
  Random random(5);
  for (const bool pairs : {true, false})
    for (const Cut cut : {Cut::kFeature, Cut::kHybrid}) {
      PlanRequest request;
      request.cut = cut;
      request.workers = 4;
      request.batch = 6;
      request.micro_batches = 1;
      request.pairs = pairs;
      const Model model = model_for(make_zoo_model_of(GetParam()), request);
      expect_adjoint(model, std::get<Plan>(make_plan(model, request, *hold_everything())), random);
    }
}

// A skip over two stages: its gradient is summed with that of the stage between.
TEST(AdjointOfStages, OfWhatSeveralRead) {
  Random random(5);
  Builder b("skips");
  const ValueId x = b.gemm(b.input("x", {ops::kBatch, 4}), 8, "fc1");
  const ValueId y = b.add(b.gemm(x, 8, "fc2"), x, "add1");
  b.loss(b.gemm(b.add(b.gemm(y, 8, "fc3"), x, "add2"), 5, "fc4"));
  const Model model = b.build();
  const auto is_relayed = [](const Route& route) {
    return route.gradient &&
           std::any_of(route.pieces.begin(), route.pieces.end(),
                       [](const Piece& piece) { return piece.contributions.size() > 1; });
  };
  size_t relayed = 0;
  for (const int workers : {3, 4, 5, 6}) {
    PlanRequest request = testing::request_of(Cut::kHybrid, workers, 6, 1);
    request.stages = 3;
    const Model made = model_for(model, request);
    const Plan plan = testing::plan_of(made, request);
    if (std::any_of(plan.routes.begin(), plan.routes.end(), is_relayed)) ++relayed;
    expect_adjoint(made, plan, random);
  }
  EXPECT_GT(relayed, 0U);
}

INSTANTIATE_TEST_SUITE_P(Zoo, AdjointOfSpread,
                         ::testing::Values("mlp 12-16-16-12", "gpt 1-16-4-4-24",
                                           "lenet5-bn width=0.125",
                                           "shufflenet width=0.06 image=32 classes=8"),
                         [](const auto& each) {
                           return each.param.substr(0, each.param.find_first_of(" -")) +
                                  std::to_string(each.index);
                         });

struct FileOfShares {
  std::string name;
  Model model;
  std::string shares;
};

// What a free cut's file says: pairs of column and row, the batch, space, heads, the vocabulary.
class AdjointOfFile : public ::testing::TestWithParam<FileOfShares> {};

TEST_P(AdjointOfFile, OfEveryActivation) {
  PlanRequest request;
  request.cut = Cut::kFree;
  request.workers = 2;
  request.batch = 4;
  request.micro_batches = 1;
  request.shares = "{\"kerf_shares\": 1, \"shares\": " + GetParam().shares + "}";
  request.shares_origin = "shares";
  Random random(5);
  const Model model = model_for(GetParam().model, request);
  expect_adjoint(model, cut_free(model, request).division, random);
}

INSTANTIATE_TEST_SUITE_P(
    Files, AdjointOfFile,
    ::testing::Values(FileOfShares{"ColumnThenRow", make_zoo_model("mlp", {{6, 8, 5}}),
                                   R"({"fc1": {"0": "0-4", "1": "5-7"},
                         "fc2": {"0": {"inputs": "0-4"}, "1": {"inputs": "5-7"}}})"},
                      FileOfShares{"Batch", testing::normalized_images(),
                                   R"({"conv1": {"0": {"samples": "0-2"}, "1": {"samples": "3"}},
                         "conv2": {"0": {"samples": "0"}, "1": {"samples": "1-3"}},
                         "head": {"0": {"samples": "0-1"}, "1": {"samples": "2-3"}},
                         "loss": {"0": {"samples": "0-1"}, "1": {"samples": "2-3"}}})"},
                      FileOfShares{"Space", testing::normalized_images(),
                                   R"({"conv1": {"0": {"rows": "0-2"}, "1": {"rows": "3-5"}},
                         "conv2": {"0": {"rows": "0-1"}, "1": {"rows": "2-3"}}})"},
                      FileOfShares{"Heads", testing::attention(),
                                   R"({"qkv": {"0": {"columns": "0-3,8-11,16-19"},
                                 "1": {"columns": "4-7,12-15,20-23"}},
                         "out": {"0": {"inner": "0-3"}, "1": {"inner": "4-7"}}})"},
                      FileOfShares{
                          "Vocabulary", testing::tied(),
                          R"({"embedding": {"0": {"vocabulary": "0-3"}, "1": {"vocabulary": "4-8"}},
                         "scores": {"0": {"outputs": "0-3"}, "1": {"outputs": "4-8"}},
                         "loss": {"0": {"classes": "0-3"}, "1": {"classes": "4-8"}}})"}),
    [](const auto& each) { return each.param.name; });

INSTANTIATE_TEST_SUITE_P(Seeds, Adjoint, ::testing::Range(1, 31));

}  // namespace
}  // namespace kerf::partitioner
