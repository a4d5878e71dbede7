// The feature cut: every operator over all workers; nothing is lost to division.
#include <gmock/gmock.h>

#include "partitioner/builder.h"
#include "partitioner/cut.h"
#include "partitioner/zoo.h"

namespace kerf::partitioner {
namespace {

class FeatureCut : public ::testing::Test {
 protected:
  void cut(const Model& model, int workers) {
    PlanRequest request;
    request.cut = Cut::kFeature;
    request.workers = workers;
    request.pairs = pairs_;
    for (const double speed : speeds_) request.speed.capacities.workers.push_back({.speed = speed});
    model_ = model_for(model, request);
    assignment_ = cut_feature(model_, request);
    layouts_ = layouts_of(model_, assignment_.division);
  }
  std::string layout(const std::string& node) const {
    const ValueId output = model_.node(model_.find_node(node)).outputs[0];
    return ops::describe(layouts_[static_cast<size_t>(output)]);
  }
  // How many features each share has.
  std::vector<int64_t> sizes(const std::string& node) const {
    const ValueId output = model_.node(model_.find_node(node)).outputs[0];
    std::vector<int64_t> sizes;
    for (const ops::Share& share : layouts_[static_cast<size_t>(output)].shares)
      sizes.push_back(share.box.axes[1].size(model_.value(output).spec.shape[1]));
    return sizes;
  }

  // How many indices each part computes of the node's iteration axis.
  std::vector<int64_t> iterations(const std::string& node, const std::string& axis) const {
    const NodeId id = model_.find_node(node);
    const ops::IterationSpace& space = model_.op(id).space();
    const auto at = static_cast<size_t>(space.find(axis));
    std::vector<int64_t> sizes;
    for (const ops::Share& share : assignment_.division.nodes[static_cast<size_t>(id)].shares)
      sizes.push_back(share.box.axes[at].size(space.axes[at].extent));
    return sizes;
  }

  bool pairs_ = false;
  std::vector<double> speeds_;  // of workers, where they differ
  Model model_;
  Assignment assignment_;
  std::vector<ops::Layout> layouts_;  // by value
};

TEST_F(FeatureCut, IsOneStageOfAllWorkers) {
  cut(make_zoo_model("mlp"), 3);
  ASSERT_EQ(assignment_.stages.size(), 1U);
  EXPECT_THAT(assignment_.stages[0].parts, ::testing::ElementsAre(0, 1, 2));
  EXPECT_EQ(static_cast<int>(assignment_.stages[0].nodes.size()), model_.nodes());
}

TEST_F(FeatureCut, TenFeaturesOverFourAreThreeThreeTwoTwo) {
  cut(make_zoo_model("mlp", {{20, 10, 10}}), 4);
  EXPECT_THAT(sizes("fc1"), ::testing::ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(sizes("relu1"), ::testing::ElementsAre(3, 3, 2, 2));
}

TEST_F(FeatureCut, FewerFeaturesThanWorkersLeaveSomeWithNone) {
  cut(make_zoo_model("mlp", {{20, 8, 3}}), 5);
  EXPECT_THAT(sizes("fc2"), ::testing::ElementsAre(1, 1, 1));
}

// ShuffleNet's unit: the shuffle's index sets are carried to the second groups, of which each needs
// a quarter of what is read. Summing over inputs would send four times as much.
TEST_F(FeatureCut, ShuffledGroupsReadWhatTheyNeed) {
  pairs_ = true;
  Builder b("shuffle");
  const auto grouped = [&](ValueId x, const char* name) {
    return b.conv(x, {.channels = 16, .groups = 4}, name);
  };
  const ValueId first =
      grouped(b.conv(b.input("x", {ops::kBatch, 3, 4, 4}), 16, 1, 1, 0, "stem"), "first");
  const ValueId turned = b.node("Transpose", {b.reshape(first, {-1, 4, 4, 4, 4}, "groups")},
                                {{"perm", std::vector<int64_t>{0, 2, 1, 3, 4}}}, "turned");
  const ValueId shuffled = b.relu(b.reshape(turned, {-1, 16, 4, 4}, "shuffled"), "relu");
  b.loss(b.gemm(b.flatten(grouped(shuffled, "second"), "flat"), 10, "fc"));
  cut(b.build(), 4);
  EXPECT_EQ(layout("second"), "split on axis 1 over 0,1,2,3");
  size_t elsewhere = 0;
  for (const Route& route : connect(model_, assignment_.division)) {
    const std::string& value = value_name(model_, route);
    if (route.gradient || value.find("weight") != value.npos) continue;
    EXPECT_NE(value, "turned.output");
    EXPECT_NE(value, "second.output");
    if (value == "relu.output") elsewhere += message_bytes(model_, route, 8);
  }
  EXPECT_EQ(elsewhere, size_t{8} * 16 * 4 * 4 * 4 * 3 / 4);
}

TEST_F(FeatureCut, WhatComparesAFewFeaturesIsDividedBySample) {
  Builder b("soft");
  b.loss(b.softmax(b.gemm(b.input("x", {ops::kBatch, 4}), 3, "fc"), "softmax"));
  cut(b.build(), 2);
  EXPECT_EQ(layout("fc"), "split on axis 1 over 0,1");
  EXPECT_EQ(layout("softmax"), "split on axis 0 over 0,1");
  EXPECT_EQ(layout("loss"), "partial sums on 0,1");
  EXPECT_TRUE(model_.rewrites().empty());
}

TEST_F(FeatureCut, WhatComparesManyFeaturesIsRewrittenAndFollows) {
  Builder b("soft");
  b.loss(b.softmax(b.gemm(b.input("x", {ops::kBatch, 4}), 30, "fc"), "softmax"));
  cut(b.build(), 2);
  EXPECT_EQ(model_.rewrites(),
            (std::vector<Rewrite>{{"split-softmax", "softmax", {0, 15, 30}},
                                  {"split-cross-entropy", "loss", {0, 15, 30}}}));
  for (const char* node : {"fc", "softmax.segments", "softmax", "loss.segments"})
    EXPECT_EQ(layout(node), "split on axis 1 over 0,1") << node;
}

TEST_F(FeatureCut, ALayerNormalisationKeepsItsFeatures) {
  cut(make_zoo_model("gpt", {{1, 16, 4, 4, 24}}), 3);
  for (const char* node : {"wte", "h.0.ln_1", "ln_f"})
    EXPECT_EQ(layout(node), "split on axis 2 over 0,1,2") << node;
  EXPECT_EQ(iterations("ln_f.sums", "features"), (std::vector<int64_t>{6, 5, 5}));
}

// Three heads of queries, keys and values to a worker, which one product makes side by side.
TEST_F(FeatureCut, APackedProductIsDividedByHeads) {
  cut(make_zoo_model("gpt", {{1, 24, 6, 4, 24}}), 2);
  const ValueId packed = model_.find_value("h.0.attn.c_attn.output");
  EXPECT_EQ(ops::to_string(layouts_[static_cast<size_t>(packed)].shares[1].box),
            "[all, 12-23,36-47,60-71]");
  EXPECT_EQ(iterations("h.0.attention", "heads"), (std::vector<int64_t>{3, 3}));
}

TEST_F(FeatureCut, AConvolutionOfGroupsIsDividedByGroupsAndWithinThem) {
  const auto grouped = [&](int workers) {
    Builder b("grouped");
    const ValueId x = b.conv(b.input("x", {ops::kBatch, 2, 4, 4}), {.channels = 12}, "first");
    b.loss(b.flatten(b.conv(x, {.channels = 8, .groups = 2}, "second"), "flatten"));
    cut(b.build(), workers);
  };
  grouped(2);
  EXPECT_EQ(iterations("second", "groups"), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(layout("first"), "split on axis 1 over 0,1");
  grouped(4);
  EXPECT_EQ(iterations("second", "groups"), (std::vector<int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(iterations("second", "outputs of a group"), (std::vector<int64_t>{2, 2, 2, 2}));
}

// Two groups over three: each of two workers has most of a group, and the third some of both.
TEST_F(FeatureCut, AConvolutionOfGroupsLeavesNoWorkerOutWhereTheyDoNotDivideEvenly) {
  const auto grouped = [&](int workers, int64_t channels) {
    Builder b("grouped");
    const ValueId x = b.conv(b.input("x", {ops::kBatch, 2, 4, 4}), {.channels = 12}, "first");
    b.loss(b.flatten(b.conv(x, {.channels = channels, .groups = 2}, "second"), "flatten"));
    cut(b.build(), workers);
  };
  grouped(3, 12);
  EXPECT_EQ(iterations("second", "groups"), (std::vector<int64_t>{1, 1, 2}));
  EXPECT_EQ(iterations("second", "outputs of a group"), (std::vector<int64_t>{4, 4, 2}));
  EXPECT_THAT(sizes("second"), ::testing::ElementsAre(4, 4, 4));
  grouped(5, 256);
  EXPECT_THAT(sizes("second"), ::testing::ElementsAre(52, 51, 52, 51, 50));
  // Of too few outputs to be shared: three workers have the first group, two the second.
  grouped(5, 6);
  EXPECT_EQ(iterations("second", "groups"), (std::vector<int64_t>{1, 1, 1, 1, 1}));
  EXPECT_EQ(iterations("second", "outputs of a group"), (std::vector<int64_t>{1, 1, 1, 2, 1}));
}

// Devices of other speeds would have other shares of each group.
TEST_F(FeatureCut, AConvolutionOfGroupsOverUnequalWorkersIsDividedAcrossThem) {
  Builder b("grouped");
  const ValueId x = b.conv(b.input("x", {ops::kBatch, 2, 4, 4}), {.channels = 12}, "first");
  b.loss(b.flatten(b.conv(x, {.channels = 32, .groups = 2}, "second"), "flatten"));
  speeds_ = {1, 2, 5};
  cut(b.build(), 3);
  EXPECT_EQ(iterations("second", "groups"), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(iterations("second", "outputs of a group"), (std::vector<int64_t>{2, 4, 10}));
}

// 14 channels over four are no ranges within halves of 7, which are divided anew.
TEST_F(FeatureCut, HalvesThatAShuffleTakesByTurnsAreDividedOverAll) {
  Builder b("shuffle");
  const ValueId x = b.conv(b.input("x", {ops::kBatch, 3, 4, 4}), {.channels = 14}, "stem");
  const ValueId halves = b.reshape(x, {-1, 2, 7, 4, 4}, "halves");
  const ValueId turned =
      b.node("Transpose", {halves}, {{"perm", std::vector<int64_t>{0, 2, 1, 3, 4}}}, "turned");
  b.loss(b.gemm(b.flatten(turned, "flat"), 10, "fc"));
  cut(b.build(), 4);
  EXPECT_EQ(layout("halves"), "split on axis 2 over 0,1,2,3");
}

// Half of a split is on half of the workers: to sum over its channels would leave the others idle.
TEST_F(FeatureCut, AProductOfWhatOnlySomeWorkersHaveIsNoPair) {
  pairs_ = true;
  Builder b("split");
  const ValueId x = b.conv(b.input("x", {ops::kBatch, 3, 4, 4}), {.channels = 16}, "stem");
  const auto halves = b.nodes("Split", {x}, {{"axis", int64_t{1}}}, 2, "halves");
  b.loss(b.gemm(b.flatten(b.conv(halves[1], {.channels = 8}, "worked"), "flat"), 10, "fc"));
  cut(b.build(), 4);
  EXPECT_EQ(iterations("worked", "outputs"), (std::vector<int64_t>{2, 2, 2, 2}));
}

TEST_F(FeatureCut, AConcatTakesWhatEachPartHasOfItsInputs) {
  Builder b("branches");
  const ValueId x = b.input("x", {ops::kBatch, 4});
  const ValueId both =
      b.node("Concat", {b.gemm(x, 5, "a"), b.gemm(x, 7, "b")}, {{"axis", int64_t{1}}}, "both");
  b.loss(both);
  cut(b.build(), 2);
  const ValueId output = model_.find_value("both.output");
  EXPECT_EQ(ops::to_string(layouts_[static_cast<size_t>(output)].shares[1].box), "[all, 3-4,9-11]");
}

// The second of each two products is divided by its inputs, where its results are no more.
TEST_F(FeatureCut, AProductOfADividedInputIsItsPair) {
  pairs_ = true;
  cut(make_zoo_model("mlp", {{20, 16, 12, 30}}), 2);
  EXPECT_EQ(iterations("fc1", "outputs"), (std::vector<int64_t>{8, 8}));
  EXPECT_EQ(iterations("fc2", "inputs"), (std::vector<int64_t>{8, 8}));
  EXPECT_EQ(layout("relu2"), "split on axis 1 over 0,1");
  EXPECT_EQ(iterations("fc3", "outputs"), (std::vector<int64_t>{15, 15}));
  pairs_ = false;
  cut(make_zoo_model("mlp", {{20, 16, 12, 30}}), 2);
  EXPECT_EQ(iterations("fc2", "outputs"), (std::vector<int64_t>{6, 6}));
}

// What a model answers is nobody's partial sums.
TEST_F(FeatureCut, TheLastProductOfAModelForAnswersIsDividedByItsOutputs) {
  pairs_ = true;
  Model m("answers");
  const ValueId x = m.add_input("x", {ops::DType::kFloat32, {ops::kBatch, 8}});
  const auto product = [&](const char* name, ValueId from, int64_t inner, int64_t outer) {
    const ValueId w =
        m.add_parameter(format("{}.weight", name), {ops::DType::kFloat32, {inner, outer}},
                        {ops::Initializer::Kind::kUniform, 0.5});
    return m.node(m.add_node(name, "Gemm", {}, {from, w})).outputs[0];
  };
  product("fc2", product("fc1", x, 8, 8), 8, 4);
  cut(m, 2);
  EXPECT_EQ(layout("fc2"), "split on axis 1 over 0,1");
}

// Elements that parts receive forward, of activations.
int64_t received(const Model& model, const Assignment& assignment) {
  int64_t elements = 0;
  for (const Route& route : connect(model, assignment.division))
    if (!route.gradient && !is_of_step(model, route))
      elements += static_cast<int64_t>(message_bytes(model, route, 1)) / 4;
  return elements;
}

// A reduction of what is narrow, instead of gathering what is wide.
TEST_F(FeatureCut, PairsOfAFeedForwardBlockSendWhatIsNarrow) {
  const Model model = make_zoo_model("mlp", {{16, 64, 16, 64, 16}});
  const int parts = 4;
  pairs_ = true;
  cut(model, parts);
  // Reduced 16, gathered 16, reduced 16 for the loss's samples.
  EXPECT_EQ(received(model_, assignment_), 3 * 16 * (parts - 1));
  pairs_ = false;
  cut(model, parts);
  // 64, 16 and 64 gathered, and three numbers of each part's scores where it is not itself.
  EXPECT_EQ(received(model_, assignment_), (64 + 16 + 64) * (parts - 1) + 3 * (parts - 1));
}

TEST_F(FeatureCut, FollowersOfDataAreReplicated) {
  Builder b("images");
  b.loss(b.gemm(b.flatten(b.input("x", {ops::kBatch, 1, 4, 4}), "flatten"), 6, "fc"));
  cut(b.build(), 3);
  EXPECT_EQ(layout("flatten"), "replicated on 0,1,2");
}

TEST_F(FeatureCut, ALossOfReplicatedScoresIsDividedBySample) {
  Builder b("scores");
  b.loss(b.flatten(b.input("x", {ops::kBatch, 1, 2, 2}), "flatten"));
  cut(b.build(), 3);
  EXPECT_EQ(layout("flatten"), "replicated on 0,1,2");
  EXPECT_EQ(layout("loss"), "partial sums on 0,1,2");
}

TEST_F(FeatureCut, ChannelsStayTogetherWhenFlattened) {
  cut(make_zoo_model("lenet5"), 4);
  EXPECT_THAT(sizes("conv2"), ::testing::ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(sizes("pool2"), ::testing::ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(sizes("flatten"), ::testing::ElementsAre(100, 100, 100, 100));
}

TEST_F(FeatureCut, AnAddTakesItsFirstInputsLayout) {
  Builder b("skip");
  const ValueId x = b.input("x", {ops::kBatch, 4});
  // Where its parts lie in it: 2 and 5 over 3 are 1 and 2, 1 and 2, and 1.
  const ValueId h =
      b.node("Concat", {b.gemm(x, 2, "a"), b.gemm(x, 5, "b")}, {{"axis", int64_t{1}}}, "h");
  b.loss(b.add(h, b.gemm(b.relu(h, "relu"), 7, "g"), "add"));
  cut(b.build(), 3);
  EXPECT_THAT(sizes("g"), ::testing::ElementsAre(3, 2, 2));
  EXPECT_THAT(sizes("add"), ::testing::ElementsAre(3, 3, 1));
}

TEST_F(FeatureCut, AWorkerWithNothingToDoIsRefused) {
  try {
    cut(make_zoo_model("mlp", {{4, 3, 2}}), 5);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInfeasible);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("use --workers 3 or fewer"));
  }
}

}  // namespace
}  // namespace kerf::partitioner
