// The hybrid cut: stages of whole layers, each over a group of workers.
#include <gmock/gmock.h>

#include "partitioner/builder.h"
#include "partitioner/complete_plan.h"
#include "partitioner/cut.h"
#include "partitioner/stage_price.h"
#include "partitioner/zoo.h"
#include "tests/partitioner/random_cut.h"

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
    request.speed = speed_;
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

  // The wire costs nothing, unless a test is of it.
  DeviceSpeed speed_{.link_bytes_per_second = std::numeric_limits<double>::infinity(),
                     .link_seconds = 0};
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

// A boundary is paid for by who reads across it: by balanced work alone it would stand after fc3.
TEST_F(HybridCut, ABoundaryGoesWhereTheWireCarriesLittle) {
  const Model model = make_zoo_model("mlp", {{512, 512, 8, 512, 512, 10}});
  cut(model, 4, 2);
  EXPECT_EQ(nodes(0).back(), "relu3");
  speed_.link_bytes_per_second = 1e8;
  cut(model, 4, 2);
  EXPECT_EQ(nodes(0).back(), "relu2");
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

// As a plan's text says it: stages and their parts, the rest implied.
double price(const Model& model, const PlanRequest& request, const std::vector<Stage>& stages) {
  Plan plan;
  plan.model = model.name();
  plan.fingerprint = model.fingerprint();
  plan.cut = Cut::kHybrid;
  plan.batch = request.batch;
  plan.micro_batches = request.micro_batches;
  plan.schedule = request.schedule;
  plan.stages = stages;
  plan.division.largest = request.largest_micro_batch();
  plan.division.nodes.resize(static_cast<size_t>(model.nodes()));
  plan.layouts.resize(static_cast<size_t>(model.values()));
  for (int part = 0; part < request.workers; ++part) plan.binding.push_back(part);
  const std::vector<bool> every(plan.layouts.size(), true);
  complete_plan(model, {.layouts = every, .routes = true}, {}, plan);
  return bottleneck_of(model, plan, request);
}

// The least price of `stages` with their boundaries anywhere: `from` is the first stage that is
// yet to begin, at `node` or after it. A layer of a perceptron begins with its Gemm.
double least_price(const Model& model, const PlanRequest& request, std::vector<Stage> stages,
                   size_t from, NodeId node) {
  if (from == stages.size()) return price(model, request, stages);
  double least = std::numeric_limits<double>::infinity();
  for (NodeId begin = node; begin < model.nodes(); ++begin) {
    if (!model.node(begin).name.starts_with("fc")) continue;
    std::vector<Stage> chosen = stages;
    chosen[from - 1].nodes.clear();
    for (NodeId each = node - 1; each < begin; ++each) chosen[from - 1].nodes.push_back(each);
    chosen[from].nodes.clear();
    for (NodeId each = begin; each < model.nodes(); ++each) chosen[from].nodes.push_back(each);
    least = std::min(least, least_price(model, request, chosen, from + 1, begin + 1));
  }
  return least;
}

// What a person would find who tried every boundary, and priced each as a plan.
TEST(HybridCutOfRandomSizes, IsTheBestOfAllOrNearlySo) {
  constexpr int kModels = 60;
  int best = 0;
  double worst = 1;
  for (int seed = 0; seed < kModels; ++seed) {
    Random random(static_cast<uint32_t>(seed));
    std::vector<int64_t> sizes;
    for (int layers = 4 + draw(random, 5); layers >= 0; --layers)
      sizes.push_back(6 + draw(random, draw(random, 2) == 0 ? 15 : 400));
    const Model model = make_zoo_model("mlp", {sizes});
    PlanRequest request;
    request.cut = Cut::kHybrid;
    request.stages = 2 + draw(random, 2);
    request.workers = request.stages + draw(random, 3);
    request.speed.link_bytes_per_second = draw(random, 2) == 0 ? 1e8 : 8e9;
    const std::vector<Stage> stages = cut_hybrid(model, request).stages;
    const double found = price(model, request, stages);
    const double least = least_price(model, request, stages, 1, 1);
    EXPECT_GE(found, least * (1 - 1e-12));
    worst = std::max(worst, found / least);
    best += found <= least * (1 + 1e-12) ? 1 : 0;
  }
  EXPECT_GE(best, kModels * 9 / 10);
  EXPECT_LE(worst, 1.25);
}

}  // namespace
}  // namespace kerf::partitioner
