// Rewrites: pieces that divide compute what the node that they replace computes, whole or divided,
// and the file of a free cut speaks of the node.
#include "partitioner/rewrite.h"

#include <gmock/gmock.h>

#include "partitioner/zoo.h"
#include "tests/partitioner/random_cut.h"
#include "tests/partitioner/sample_models.h"
#include "tests/partitioner/step_checks.h"
#include "tests/partitioner/wide_models.h"

namespace kerf::partitioner {
namespace {

using testing::complaint;
using ::testing::HasSubstr;
using testing::normalized_images;

Model mlp() { return make_zoo_model("mlp", {{8, 12, 10}}); }

Model split_loss(const Model& model) {
  return rewritten(model, {{"split-cross-entropy", "loss", {0, 1, 3, 4}}});
}

Model synchronised(const Model& model) {
  return rewritten(model, {{"sync-batch-norm", "bn1"}, {"sync-batch-norm", "bn2"}});
}

// Rows that are normalised in both ways, and their shares of 1.
Model normalised_rows() {
  Builder b("rows");
  const ValueId x = b.gemm(b.input("x", {ops::kBatch, 6}), 12, "fc1");
  const ValueId h = b.gemm(b.layer_norm(x, "layer_norm"), 12, "fc2");
  const ValueId scale = b.parameter("rms_norm.weight", {12}, {ops::Initializer::Kind::kOne});
  const ValueId y = b.node("RMSNormalization", {h, scale}, {{"epsilon", 0.1}}, "rms_norm");
  const ValueId z = b.node("LogSoftmax", {b.gemm(y, 10, "fc3")}, {}, "logarithms");
  b.loss(b.gemm(b.softmax(z, "shares"), 10, "fc4"));
  return b.build();
}

Model rewritten_rows() {
  return rewritten(normalised_rows(), {{"split-layer-norm", "layer_norm"},
                                       {"split-rms-norm", "rms_norm"},
                                       {"split-log-softmax", "logarithms", {0, 4, 10}},
                                       {"split-softmax", "shares", {0, 2, 3, 10}}});
}

// Of losses, gradients and parameters, whose names no rewrite changes.
void expect_same_training(StepResult got, StepResult expected, float tolerance) {
  got.values.clear();
  expected.values.clear();
  expect_close(got, expected, tolerance);
}

// A plan's text names rewrites before anything of it is checked.
TEST(Rewrite, OfAPlanIsRefusedWhereItsPiecesAreNotTheNode) {
  Builder b("rows");
  const ValueId x = b.gemm(b.input("x", {ops::kBatch, 6}), 12, "fc1");
  const ValueId scale = b.parameter("norm.weight", {12}, {ops::Initializer::Kind::kOne});
  const auto both = b.nodes("LayerNormalization", {x, scale}, {}, 2, "norm");
  b.loss(b.gemm(both[0], 6, "fc2"));
  EXPECT_THAT(complaint([&] {
                rewritten(b.build(), {{"split-layer-norm", "norm"}});
              }),
              HasSubstr("rows: node norm: split-layer-norm cannot rewrite it: its outputs"));
  Model m("inference");
  const auto channels = [&](const char* name, Role role) {
    return m.add_parameter(name, {ops::DType::kFloat32, {4}}, {ops::Initializer::Kind::kOne}, role);
  };
  const ValueId image = m.add_input("x", {ops::DType::kFloat32, {ops::kBatch, 4}});
  const NodeId bn =
      m.add_node("bn", "BatchNormalization", {{"training_mode", int64_t{0}}},
                 {image, channels("scale", Role::kParameter), channels("shift", Role::kParameter),
                  channels("mean", Role::kState), channels("variance", Role::kState)},
                 1);
  const ValueId label = m.add_label("label", {ops::DType::kInt64, {ops::kBatch}});
  m.add_node("loss", "SoftmaxCrossEntropyLoss", {}, {m.node(bn).outputs[0], label});
  EXPECT_THAT(complaint([&] {
                rewritten(m, {{"sync-batch-norm", "bn"}});
              }),
              HasSubstr("sync-batch-norm cannot rewrite it: it needs nothing whole"));
}

TEST(Rewrite, KeepsNamesAndNumbersOfWhatIsReadAndKept) {
  const Model before = normalized_images();
  const Model after = synchronised(before);
  for (ValueId id = 0; id < before.values(); ++id) {
    const Value& value = before.value(id);
    if (value.producer >= 0) continue;
    const ValueId same = after.find_value(value.name);
    ASSERT_GE(same, 0) << value.name;
    EXPECT_EQ(after.value(same).parameter, value.parameter) << value.name;
    EXPECT_EQ(after.value(same).initializer, value.initializer) << value.name;
  }
  EXPECT_EQ(after.node(after.find_node("bn1")).op, "BatchNormalization");
  EXPECT_EQ(after.node(after.find_node("bn1.statistics")).op, "ChannelStatistics");
  EXPECT_NE(after.find_value("bn1.output"), -1);
  EXPECT_NE(after.fingerprint(), before.fingerprint());
  ASSERT_NE(after.original(), nullptr);
  EXPECT_EQ(after.original()->fingerprint(), before.fingerprint());
}

TEST(Rewrite, WholeItTrainsAsTheNodeThatItReplaces) {
  const Model plain = mlp();
  const Model loss = rewritten(plain, {{"split-cross-entropy", "loss", {0, 4, 7, 10}}});
  expect_same_training(run(loss, plan_of(loss, Cut::kLayer, 1)),
                       run(plain, plan_of(plain, Cut::kLayer, 1)), 1e-6F);
  const Model images = normalized_images();
  const Model synced = synchronised(images);
  expect_same_training(run(synced, plan_of(synced, Cut::kLayer, 1)),
                       run(images, plan_of(images, Cut::kLayer, 1)), 1e-6F);
  const Model rows = rewritten_rows();
  expect_same_training(run(rows, plan_of(rows, Cut::kLayer, 1)),
                       run(normalised_rows(), plan_of(normalised_rows(), Cut::kLayer, 1)), 1e-6F);
}

TEST(Rewrite, KeepsMomentumAndEpsilon) {
  Model m("m");
  const ops::ValueSpec channels{ops::DType::kFloat32, {4}};
  const auto add = [&](const char* name, ops::Initializer::Kind kind, Role role) {
    return m.add_parameter(name, channels, {kind}, role);
  };
  using Kind = ops::Initializer::Kind;
  const ValueId x = m.add_input("x", {ops::DType::kFloat32, {ops::kBatch, 4}});
  const ValueId scale = add("scale", Kind::kOne, Role::kParameter);
  const ValueId shift = add("shift", Kind::kZero, Role::kParameter);
  const ValueId mean = add("mean", Kind::kZero, Role::kState);
  const ValueId variance = add("variance", Kind::kOne, Role::kState);
  const ValueId label = m.add_label("label", {ops::DType::kInt64, {ops::kBatch}});
  const NodeId bn =
      m.add_node("bn", "BatchNormalization",
                 {{"training_mode", int64_t{1}}, {"momentum", 0.25}, {"epsilon", 2.0}},
                 {x, scale, shift, mean, variance}, 3);
  m.add_node("loss", "SoftmaxCrossEntropyLoss", {}, {m.node(bn).outputs[0], label});
  const Model synced = rewritten(m, {{"sync-batch-norm", "bn"}});
  expect_same_training(run(synced, plan_of(synced, Cut::kLayer, 1)),
                       run(m, plan_of(m, Cut::kLayer, 1)), 1e-6F);
}

class RandomRewritten : public ::testing::TestWithParam<int> {};

TEST_P(RandomRewritten, AnyDivisionOfPiecesTrainsAsTheWhole) {
  Random random(static_cast<Random::result_type>(GetParam()));
  const int parts = 2 + GetParam() % 4;
  for (const Model& model :
       {split_loss(random_model(random)), synchronised(normalized_images()), rewritten_rows()}) {
    const Plan plan = plan_of(model, random_division(model, parts, 4, random), parts);
    // Some shares of the third micro-batch are empty, and all of the last.
    const std::vector<int64_t> sizes = {4, 3, 2, 0};
    expect_close(run(model, plan, sizes), run(model, plan_of(model, Cut::kLayer, 1), sizes), 1e-4F);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRewritten, ::testing::Range(1, 9));

PlanRequest free_request(const std::string& shares, int workers) {
  PlanRequest request;
  request.cut = Cut::kFree;
  request.workers = workers;
  request.batch = 10;
  request.micro_batches = 3;  // of 4 samples at most
  request.shares = "{\"kerf_shares\": 1, \"shares\": " + shares + "}";
  request.shares_origin = "shares.json";
  request.minimise = Minimise::kForwardFlops;
  return request;
}

struct Rewritten {
  Model model;
  Plan plan;
};
Rewritten plan_for(const Model& model, const std::string& shares, int workers) {
  const PlanRequest request = free_request(shares, workers);
  Model made = model_for(model, request);
  Plan plan = std::get<Plan>(make_plan(made, request, *hold_everything()));
  return {std::move(made), std::move(plan)};
}

std::string division(const Rewritten& made, const std::string& node) {
  const NodeId id = made.model.find_node(node);
  return ops::describe(made.plan.division.nodes.at(static_cast<size_t>(id)));
}

const char* const kClasses = R"({"fc2": {"0": "0-3", "1": "4-6", "2": "7-9"},
  "loss": {"0": {"classes": "0-3"}, "1": {"classes": "4-6"}, "2": {"classes": "7-9"}}})";

TEST(FreeCutRewrites, ALossDividedByClasses) {
  const Model plain = mlp();
  const Rewritten made = plan_for(plain, kClasses, 3);
  ASSERT_EQ(made.model.rewrites().size(), 1U);
  EXPECT_EQ(made.model.rewrites()[0], (Rewrite{"split-cross-entropy", "loss", {0, 4, 7, 10}}));
  EXPECT_EQ(division(made, "loss.segments"), "split on axis 1 over 0,1,2");
  EXPECT_EQ(division(made, "loss"), "whole on 0");
  for (const Route& route : made.plan.routes)
    EXPECT_NE(value_name(made.model, route), "fc2.output") << "scores stay where they are";
  expect_same_training(run(made.model, made.plan), run(plain, plan_of(plain, Cut::kLayer, 1)),
                       1e-5F);
}

// Sets with gaps, and samples too: whoever has the first classes of a sample puts its row together.
TEST(FreeCutRewrites, ALossDividedByClassesAndSamples) {
  const Model plain = mlp();
  const Rewritten made = plan_for(plain, R"({"loss": {
      "0": {"classes": "0-2,9", "samples": "0-1"}, "1": {"classes": "3-8", "samples": "0-1"},
      "2": {"classes": "0-2,9", "samples": "2-3"}, "3": {"classes": "3-8", "samples": "2-3"}}})",
                                  4);
  EXPECT_EQ(made.model.rewrites().at(0).numbers, (std::vector<int64_t>{0, 3, 9, 10}));
  EXPECT_EQ(division(made, "loss"), "split on axis 0 over 0,2");
  expect_same_training(run(made.model, made.plan), run(plain, plan_of(plain, Cut::kLayer, 1)),
                       1e-5F);
}

TEST(FreeCutRewrites, BatchNormalisationFollowsADividedBatch) {
  const Model plain = normalized_images();
  const Rewritten made = plan_for(plain, R"({"conv1": {"0": {"samples": "0-2"},
                                                       "1": {"samples": "3"}},
                                             "conv2": {"0": {"samples": "0"},
                                                       "1": {"samples": "1-3"}},
                                             "head": {"1": "all"}})",
                                  2);
  EXPECT_EQ(made.model.rewrites(),
            (std::vector<Rewrite>{{"sync-batch-norm", "bn1"}, {"sync-batch-norm", "bn2"}}));
  EXPECT_EQ(division(made, "bn1.sums"), division(made, "conv1"));
  EXPECT_EQ(division(made, "bn2"), division(made, "conv2"));
  EXPECT_EQ(division(made, "bn1.statistics"), "replicated on 0,1");
  expect_same_training(run(made.model, made.plan), run(plain, plan_of(plain, Cut::kLayer, 1)),
                       1e-5F);
}

TEST(FreeCutRewrites, BatchNormalisationDividedByRowsOfImagesAndChannels) {
  const Model plain = normalized_images();
  const Rewritten made = plan_for(plain, R"({"bn1": {
      "0": {"axis 2": "0-1"},
      "1": {"axis 2": "2-5", "channels": "0,3"},
      "2": {"axis 2": "2-5", "channels": "1-2"}}})",
                                  3);
  ASSERT_EQ(made.model.rewrites().size(), 1U);
  expect_same_training(run(made.model, made.plan), run(plain, plan_of(plain, Cut::kLayer, 1)),
                       1e-5F);
}

TEST(FreeCutRewrites, RowsDividedByFeatures) {
  const Model plain = normalised_rows();
  const Rewritten made = plan_for(plain, R"({
      "layer_norm": {"0": {"features": "0-6"}, "1": {"features": "7-11"}},
      "rms_norm": {"0": {"features": "0-1,4"}, "1": {"features": "2-3,5-11"}},
      "logarithms": {"0": {"features": "0-3"}, "1": {"features": "4-9"}},
      "shares": {"0": {"features": "0-3"}, "1": {"features": "4-9"}}})",
                                  2);
  EXPECT_EQ(made.model.rewrites().size(), 4U);
  EXPECT_EQ(division(made, "layer_norm.sums"), division(made, "layer_norm"));
  expect_same_training(run(made.model, made.plan), run(plain, plan_of(plain, Cut::kLayer, 1)),
                       1e-5F);
}

// The mean of a row, as an output, is made by no piece.
TEST(FreeCutRewrites, ANormalisationWithStatisticsStaysWhole) {
  Model m("m");
  const ops::ValueSpec row{ops::DType::kFloat32, {6}};
  const ValueId x = m.add_input("x", {ops::DType::kFloat32, {ops::kBatch, 6}});
  const ValueId w = m.add_parameter("w", row, {ops::Initializer::Kind::kOne}, Role::kParameter);
  const NodeId norm = m.add_node("norm", "LayerNormalization", {}, {x, w}, 2);
  m.add_label("label", {ops::DType::kInt64, {ops::kBatch}});
  m.add_node("loss", "SoftmaxCrossEntropyLoss", {},
             {m.node(norm).outputs[0], m.find_value("label")});
  const std::string shares = R"({"norm": {"0": "0-2", "1": "3-5"}})";
  EXPECT_THAT(complaint([&] { model_for(m, free_request(shares, 2)); }),
              HasSubstr("node norm: worker 0: it divides its features"));
}

TEST(FreeCutRewrites, WhatNeedsNoneStaysAsItIs) {
  const PlanRequest request =
      free_request(R"({"loss": {"0": {"samples": "0-1"}, "1": {"samples": "2-3"}}})", 2);
  const Model model = mlp();
  EXPECT_EQ(model_for(model, request).fingerprint(), model.fingerprint());
  EXPECT_EQ(model_for(normalized_images(), free_request("{}", 2)).original(), nullptr);
}

TEST(FreeCutRewrites, WithoutARewriteTheAxisIsNamedAndTheWayOut) {
  Builder b("unit");
  const ValueId x = b.gemm(b.input("x", {ops::kBatch, 6}), 10, "fc");
  b.loss(b.node("LpNormalization", {x}, {}, "unit"));
  const Model unit = b.build();
  const std::string shares = R"({"unit": {"0": "0-4", "1": "5-9"}})";
  EXPECT_THAT(complaint([&] { model_for(unit, free_request(shares, 2)); }),
              ::testing::AllOf(HasSubstr("shares.json: node unit: worker 0: it divides its"),
                               HasSubstr("divide its samples, or give one worker \"all\"")));
  EXPECT_THAT(complaint([&] { model_for(mlp(), free_request(R"({"loss": {"0": "0-4"}})", 2)); }),
              HasSubstr(R"(name an axis, {"samples" or "classes": "INDICES"})"));
  // Nor is a model cut that was not rewritten for it.
  EXPECT_THAT(complaint([&] { make_plan(mlp(), free_request(kClasses, 3), *hold_everything()); }),
              ::testing::AllOf(HasSubstr("it divides its classes"), HasSubstr("model_for()")));
  const Model other = model_for(mlp(), free_request(kClasses, 3));
  EXPECT_THAT(complaint([&] {
                make_plan(other,
                          free_request(R"({"loss": {"0": {"classes": "0-4"},
                                                           "1": {"classes": "5-9"}}})",
                                       3),
                          *hold_everything());
              }),
              HasSubstr("rewritten for other shares"));
}

TEST(PlanOfRewritten, NamesTheRewritesAndReadsBack) {
  const Rewritten made = plan_for(mlp(), kClasses, 3);
  for (const PlanText form : {PlanText::kWhole, PlanText::kDecisions}) {
    const std::string text = write_plan(made.model, made.plan, form);
    EXPECT_THAT(text, HasSubstr("\"rewrite\": \"split-cross-entropy\""));
    const Model again = rewritten(mlp(), rewrites_of_plan(text, "plan.json"));
    EXPECT_EQ(again.fingerprint(), made.model.fingerprint());
    EXPECT_EQ(read_plan(again, text, "plan.json").routes, made.plan.routes);
    EXPECT_THAT(complaint([&] { read_plan(mlp(), text, "plan.json"); }),
                HasSubstr("plan.json: rewrites: these are not the rewrites that made the model"));
  }
}

struct BadRewrite {
  std::vector<Rewrite> rewrites;
  std::string complaint;
};
class RewriteMistake : public ::testing::TestWithParam<BadRewrite> {};

TEST_P(RewriteMistake, IsNamed) {
  EXPECT_THAT(complaint([&] { rewritten(mlp(), GetParam().rewrites); }),
              HasSubstr(GetParam().complaint));
}

INSTANTIATE_TEST_SUITE_P(
    All, RewriteMistake,
    ::testing::Values(
        BadRewrite{{{"unroll", "loss"}},
                   "the rewrites are split-cross-entropy, split-layer-norm, split-rms-norm, "
                   "split-softmax, "
                   "split-log-softmax, sync-batch-norm"},
        BadRewrite{{{"split-cross-entropy", "lost"}}, "mlp: node lost: split-cross-entropy cannot"},
        BadRewrite{{{"sync-batch-norm", "fc1"}}, "it is a Gemm, not a BatchNormalization"},
        BadRewrite{{{"split-cross-entropy", "loss", {0, 10}}, {"split-cross-entropy", "loss"}},
                   "rewritten already"},
        BadRewrite{{{"split-cross-entropy", "loss", {0, 11}}}, "do not ascend from 0 to 10"}));

TEST(RewritesOfAPlan, ThatAreNoneAreNamedByPlace) {
  const auto read = [](const std::string& text) {
    return complaint([&] { rewrites_of_plan(text, "plan.json"); });
  };
  EXPECT_TRUE(rewrites_of_plan("{}", "plan.json").empty());
  EXPECT_THAT(read(R"({"rewrites": 1})"), HasSubstr("plan.json"));
  EXPECT_THAT(read(R"({"rewrites": [1]})"), HasSubstr("plan.json: rewrites[0]"));
  EXPECT_THAT(read(R"({"rewrites": [{"rewrite": "a"}]})"), HasSubstr("\"node\""));
  EXPECT_THAT(read(R"({"rewrites": [{"rewrite": "a", "node": "b", "numbers": ["x"]}]})"),
              HasSubstr("integers"));
}

}  // namespace
}  // namespace kerf::partitioner
