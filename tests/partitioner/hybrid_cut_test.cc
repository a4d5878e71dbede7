// The hybrid cut: stages of whole layers, each over a group of workers.
#include <gmock/gmock.h>

#include "partitioner/builder.h"
#include "partitioner/cut.h"
#include "partitioner/zoo.h"

namespace kerf::partitioner {
namespace {

using ::testing::ElementsAre;

class HybridCut : public ::testing::Test {
 protected:
  void cut(const Model& model, int workers, int stages) {
    PlanRequest request;
    request.cut = Cut::kHybrid;
    request.workers = workers;
    request.stages = stages;
    model_ = model;
    assignment_ = cut_hybrid(model, request);
    layouts_ = layouts_of(model_, assignment_.division);
  }
  std::vector<std::string> nodes(size_t stage) const {
    std::vector<std::string> names;
    for (const NodeId node : assignment_.stages[stage].nodes)
      names.push_back(model_.node(node).name);
    return names;
  }
  std::string layout(const std::string& node) const {
    const ValueId output = model_.node(model_.find_node(node)).outputs[0];
    return ops::describe(layouts_[static_cast<size_t>(output)]);
  }

  Model model_;
  Assignment assignment_;
  std::vector<ops::Layout> layouts_;  // by value
};

TEST_F(HybridCut, FiveWorkersOverTwoStagesAreThreeAndTwo) {
  cut(make_zoo_model("mlp"), 5, 2);
  ASSERT_EQ(assignment_.stages.size(), 2U);
  EXPECT_THAT(assignment_.stages[0].parts, ElementsAre(0, 1, 2));
  EXPECT_THAT(assignment_.stages[1].parts, ElementsAre(3, 4));
}

TEST_F(HybridCut, AStageBeginsAtALayerAndFollowersStayWithTheirProducer) {
  cut(make_zoo_model("mlp", {{64, 64, 64, 64, 10}}), 2, 2);
  EXPECT_THAT(nodes(0), ElementsAre("fc1", "relu1", "fc2", "relu2"));
  EXPECT_THAT(nodes(1), ElementsAre("fc3", "relu3", "fc4", "loss"));
}

TEST_F(HybridCut, StagesAreBalancedByWhatEachWorkerComputes) {
  cut(make_zoo_model("mlp", {{1000, 100, 10, 10, 10}}), 2, 2);
  EXPECT_THAT(nodes(0), ElementsAre("fc1", "relu1"));
  cut(make_zoo_model("mlp", {{512, 512, 512, 512, 10}}), 3, 2);  // two workers, then one
  EXPECT_THAT(nodes(0), ElementsAre("fc1", "relu1", "fc2", "relu2"));
}

TEST_F(HybridCut, EachStageIsDividedOverItsGroup) {
  cut(make_zoo_model("mlp", {{64, 64, 64, 64, 10}}), 5, 2);
  EXPECT_EQ(layout("fc1"), "split on axis 1 over 0,1,2");
  EXPECT_EQ(layout("relu2"), "split on axis 1 over 0,1,2");
  EXPECT_EQ(layout("fc3"), "split on axis 1 over 3,4");
  EXPECT_EQ(layout("loss"), "whole on 3");
}

TEST_F(HybridCut, AnAddAcrossStagesFollowsWhatIsInItsOwn) {
  Builder b("skip");
  const ValueId h = b.gemm(b.input("x", {ops::kBatch, 8}), 8, "h");
  b.loss(b.add(h, b.gemm(h, 8, "g"), "add"));
  cut(b.build(), 4, 2);
  EXPECT_EQ(layout("h"), "split on axis 1 over 0,1");
  EXPECT_EQ(layout("add"), "split on axis 1 over 2,3");
}

TEST_F(HybridCut, TwoStagesUnlessAsked) {
  cut(make_zoo_model("mlp"), 4, 0);
  EXPECT_EQ(assignment_.stages.size(), 2U);
  cut(make_zoo_model("mlp"), 1, 0);
  EXPECT_EQ(assignment_.stages.size(), 1U);
}

TEST_F(HybridCut, MoreStagesThanLayersOrWorkersAreRefused) {
  for (const auto& [workers, stages] : {std::pair{8, 4}, std::pair{2, 3}}) try {
      cut(make_zoo_model("mlp"), workers, stages);  // three layers
      ADD_FAILURE() << workers << " workers, " << stages << " stages";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInfeasible);
    }
}

}  // namespace
}  // namespace kerf::partitioner
