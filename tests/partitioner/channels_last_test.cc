// Channels last around convolutions: where images change their order, what keeps its own, and that
// the same step comes out, cut or whole.
#include "partitioner/channels_last.h"

#include <gmock/gmock.h>

#include "partitioner/builder.h"
#include "partitioner/zoo.h"
#include "tests/partitioner/step_checks.h"

namespace kerf::partitioner {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> ops_and_names(const Model& model) {
  std::vector<std::string> nodes;
  for (NodeId id = 0; id < model.nodes(); ++id)
    nodes.push_back(format("{} {}", model.node(id).op, model.node(id).name));
  return nodes;
}

ops::Shape shape_after(const Model& model, const std::string& node) {
  return model.value(model.node(model.find_node(node)).outputs[0]).spec.shape;
}

//   x ── stem ──┬── left ── bn ──┬── joined ── (+ right) ── channels ── out ── flatten ...
//               └───── right ────┘
// joined = [left, right] along the channels, of which halves are taken again.
Model image_branches() {
  Builder b("image branches");
  const ValueId x = b.input("x", {ops::kBatch, 3, 6, 5});
  const ValueId stem = b.relu(b.conv(x, 17, 3, 1, 1, "stem"), "stem_relu");
  const ValueId left = b.batch_norm(b.conv(stem, 4, 3, 1, 1, "left"), "bn");
  const ValueId right = b.average_pool(b.conv(stem, 4, 3, 1, 2, "right"), 3, 1, "smooth");
  const ValueId joined = b.node("Concat", {left, right}, {{"axis", int64_t{1}}}, "joined");
  const ValueId soft = b.node("Softmax", {joined}, {{"axis", int64_t{1}}}, "soft");
  const ValueId sum = b.add(soft, joined, "sum");
  const ValueId scaled = b.add(sum, b.parameter("per_channel", {8, 1, 1}, {}), "biased");
  const ValueId weights =
      b.parameter("per_position", {6, 5}, {ops::Initializer::Kind::kUniform, 1});
  const ValueId weighed = b.node("Mul", {scaled, weights}, {}, "of_positions");
  b.loss(b.gemm(b.flatten(b.max_pool(weighed, 2, 2, "pool"), "flat"), 5, "scores"));
  return b.build();
}

TEST(ChannelsLast, ImagesTurnAtTheEdgesOfTheRegionOnly) {
  const Model model = channels_last(make_zoo_model("lenet5"));
  EXPECT_THAT(
      ops_and_names(model),
      ElementsAre("Reshape image.channels_last", "Conv conv1", "Relu relu1", "MaxPool pool1",
                  "Conv conv2", "Relu relu2", "MaxPool pool2", "Transpose pool2.channels_first",
                  "Flatten flatten", "Gemm fc1", "Relu relu3", "Gemm fc2", "Relu relu4", "Gemm fc3",
                  "SoftmaxCrossEntropyLoss loss"));
  EXPECT_EQ(shape_after(model, "conv1"), (ops::Shape{ops::kBatch, 28, 28, 6}));
  EXPECT_EQ(shape_after(model, "pool2"), (ops::Shape{ops::kBatch, 5, 5, 16}));
  EXPECT_EQ(shape_after(model, "pool2.channels_first"), (ops::Shape{ops::kBatch, 16, 5, 5}));
}

TEST(ChannelsLast, BranchesShareOneOrderAndParametersKeepTheirs) {
  const Model model = channels_last(image_branches());
  EXPECT_THAT(
      ops_and_names(model),
      ElementsAre("Transpose x.channels_last", "Conv stem", "Relu stem_relu", "Conv left",
                  "BatchNormalization bn", "Conv right", "AveragePool smooth", "Concat joined",
                  "Softmax soft", "Add sum",
                  // A parameter of channels stays as ONNX has it; one of positions does
                  // not go with images.
                  "Add biased", "Transpose biased.channels_first", "Mul of_positions",
                  "MaxPool pool", "Flatten flat", "Gemm scores", "SoftmaxCrossEntropyLoss loss"));
  EXPECT_EQ(shape_after(model, "joined"), (ops::Shape{ops::kBatch, 6, 5, 8}));
  EXPECT_EQ(model.value(model.find_value("stem.weight")).spec.shape, (ops::Shape{17, 3, 3, 3}));
  EXPECT_EQ(model.value(model.find_value("x")).spec.shape, (ops::Shape{ops::kBatch, 3, 6, 5}));
}

TEST(ChannelsLast, ParametersAndRandomNumbersKeepTheirPlaces) {
  Builder b("dropping");
  const ValueId x = b.input("x", {ops::kBatch, 2, 4, 4});
  const ValueId dropped = b.dropout(b.conv(x, 3, 3, 1, 0, "conv"), 0.5, "drop");
  b.loss(b.gemm(b.flatten(dropped, "flat"), 3, "fc"));
  const Model before = b.build();
  const Model after = channels_last(before);
  for (NodeId id = 0; id < before.nodes(); ++id) {
    const NodeId same = after.find_node(before.node(id).name);
    ASSERT_GE(same, 0);
    EXPECT_EQ(after.node(same).key, before.node(id).key);
  }
  for (const ValueId id : before.parameters())
    EXPECT_EQ(after.value(after.find_value(before.value(id).name)).parameter,
              before.value(id).parameter);
  // Its numbers are of elements in ONNX's order, so that it drops the same ones.
  EXPECT_EQ(shape_after(after, "drop"), shape_after(before, "drop"));
}

TEST(ChannelsLast, NothingTurnsWithoutConvolutions) {
  Builder b("pooling");
  const ValueId x = b.input("x", {ops::kBatch, 2, 4, 4});
  b.loss(b.gemm(b.flatten(b.max_pool(x, 2, 2)), 3));
  for (const Model& model : {b.build(), make_zoo_model("mlp"), make_zoo_model("lstm-lm")})
    EXPECT_EQ(channels_last(model).fingerprint(), model.fingerprint());
}

TEST(ChannelsLast, ResultsOfAModelWithoutALossAreInTheOrderOfOnnx) {
  Builder b("images out");
  const ValueId x = b.input("x", {ops::kBatch, 3, 4, 4});
  b.relu(b.conv(x, 5, 3, 1, 1, "conv"), "relu");
  const Model model = channels_last(b.build());
  EXPECT_THAT(ops_and_names(model), ElementsAre("Transpose x.channels_last", "Conv conv",
                                                "Relu relu", "Transpose relu.channels_first"));
  EXPECT_EQ(shape_after(model, "relu.channels_first"), (ops::Shape{ops::kBatch, 5, 4, 4}));
}

TEST(ChannelsLast, IsTheSameStepButForRounding) {
  for (const Model& model : {make_zoo_model("lenet5-bn"), image_branches()}) {
    const Model turned = channels_last(model);
    const StepResult expected = run(model, plan_of(model, Cut::kLayer, 1));
    const StepResult got = run(turned, plan_of(turned, Cut::kLayer, 1));
    ASSERT_EQ(got.losses.size(), expected.losses.size());
    for (size_t i = 0; i < got.losses.size(); ++i)
      EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-5F);
    for (const auto& [name, gradient] : expected.gradients) {
      const std::vector<float>& other = got.gradients.at(name);
      ASSERT_EQ(other.size(), gradient.size()) << name;
      for (size_t i = 0; i < gradient.size(); ++i)
        ASSERT_NEAR(other[i], gradient[i], 1e-5F) << name << ", element " << i;
    }
  }
}

// Contract 1: the order is the uncut model's, whatever the boundary.
TEST(ChannelsLast, HasTheSameBitsUnderEveryLayerCut) {
  for (const Model& model :
       {channels_last(make_zoo_model("lenet5")), channels_last(image_branches())}) {
    const StepResult one = run(model, plan_of(model, Cut::kLayer, 1));
    for (int workers = 2; workers <= 5; ++workers)
      expect_same_bits(run(model, plan_of(model, Cut::kLayer, workers)), one);
  }
}

TEST(ChannelsLast, DividesByChannelsAndRowsAsBefore) {
  const Model model = channels_last(make_zoo_model("lenet5"));
  const StepResult one = run(model, plan_of(model, Cut::kLayer, 1));
  for (const char* shares :
       {R"({"conv1": {"0": "0-3", "1": "4,5"}, "conv2": {"0": "0,1,9-15", "1": "2-8"}})",
        R"({"conv1": {"0": {"rows": "0-13"}, "1": {"rows": "14-27"}}})"}) {
    const Plan plan =
        plan_of(model, Cut::kFree, 2, format(R"({{"kerf_shares": 1, "shares": {}}})", shares));
    expect_close(run(model, plan), one, 1e-4F);
  }
}

}  // namespace
}  // namespace kerf::partitioner
