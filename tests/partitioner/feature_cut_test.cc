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
    model_ = model;
    assignment_ = cut_feature(model, request);
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

TEST_F(FeatureCut, TheLossAndSoftmaxAreWholeOnTheFirst) {
  Builder b("soft");
  b.loss(b.softmax(b.gemm(b.input("x", {ops::kBatch, 4}), 6, "fc"), "softmax"));
  cut(b.build(), 2);
  EXPECT_EQ(layout("fc"), "split on axis 1 over 0,1");
  EXPECT_EQ(layout("softmax"), "whole on 0");
  EXPECT_EQ(layout("loss"), "whole on 0");
}

TEST_F(FeatureCut, FollowersOfDataAreReplicated) {
  Builder b("images");
  b.loss(b.gemm(b.flatten(b.input("x", {ops::kBatch, 1, 4, 4}), "flatten"), 6, "fc"));
  cut(b.build(), 3);
  EXPECT_EQ(layout("flatten"), "replicated on 0,1,2");
}

// One of them speaks for all, so the others need not work it out.
TEST_F(FeatureCut, ALossOfReplicatedScoresIsWholeOnTheFirst) {
  Builder b("scores");
  b.loss(b.flatten(b.input("x", {ops::kBatch, 1, 2, 2}), "flatten"));
  cut(b.build(), 3);
  EXPECT_EQ(layout("flatten"), "replicated on 0,1,2");
  EXPECT_EQ(layout("loss"), "whole on 0");
}

TEST_F(FeatureCut, ChannelsStayTogetherWhenFlattened) {
  cut(make_zoo_model("lenet5"), 4);
  EXPECT_THAT(sizes("conv2"), ::testing::ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(sizes("pool2"), ::testing::ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(sizes("flatten"), ::testing::ElementsAre(100, 100, 100, 100));
}

TEST_F(FeatureCut, AnAddTakesItsFirstInputsLayout) {
  Builder b("skip");
  const ValueId h = b.gemm(b.input("x", {ops::kBatch, 4}), 7, "h");
  b.loss(b.add(h, b.gemm(b.relu(h, "relu"), 7, "g"), "add"));
  cut(b.build(), 3);
  EXPECT_THAT(sizes("add"), ::testing::ElementsAre(3, 2, 2));
  EXPECT_EQ(layout("add"), layout("h"));
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
