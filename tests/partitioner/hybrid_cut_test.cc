// The hybrid cut: stages of whole layers, each over a group of workers.
#include <gmock/gmock.h>

#include "partitioner/builder.h"
#include "partitioner/complete_plan.h"
#include "partitioner/cut.h"
#include "partitioner/stage_price.h"
#include "partitioner/tried_plan.h"
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
    request.by_feature = by_feature_;
    model_ = model;
    plan_ = std::get<Plan>(make_plan(model, request, *hold_everything()));
  }
  std::vector<std::string> nodes(size_t stage) const {
    std::vector<std::string> names;
    for (const NodeId node : plan_.stages[stage].nodes) names.push_back(model_.node(node).name);
    return names;
  }
  std::string layout(const std::string& node) const {
    const ValueId output = model_.node(model_.find_node(node)).outputs[0];
    return ops::describe(plan_.layouts[static_cast<size_t>(output)]);
  }

  // The wire costs nothing, unless a test is of it.
  DeviceSpeed speed_{.link_bytes_per_second = std::numeric_limits<double>::infinity(),
                     .link_seconds = 0};
  GroupSet by_feature_;
  Model model_;
  Plan plan_;
};

TEST_F(HybridCut, FiveWorkersOverTwoStagesAreThreeAndTwo) {
  cut(make_zoo_model("mlp"), 5, 2);
  ASSERT_EQ(plan_.stages.size(), 2U);
  EXPECT_THAT(plan_.stages[0].parts, ElementsAre(0, 1, 2));
  EXPECT_THAT(plan_.stages[1].parts, ElementsAre(3, 4));
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
  EXPECT_EQ(layout("loss"), "partial sums on 3,4");
}

TEST_F(HybridCut, AnAddAcrossStagesFollowsWhatIsInItsOwn) {
  Builder b("skip");
  const ValueId h = b.gemm(b.input("x", {ops::kBatch, 8}), 8, "h");
  b.loss(b.add(h, b.gemm(h, 8, "g"), "add"));
  by_feature_.set();
  cut(b.build(), 4, 2);
  EXPECT_EQ(layout("h"), "split on axis 1 over 0,1");
  EXPECT_EQ(layout("add"), "split on axis 1 over 2,3");
}

TEST_F(HybridCut, TwoStagesUnlessAsked) {
  cut(make_zoo_model("mlp"), 4, 0);
  EXPECT_EQ(plan_.stages.size(), 2U);
  cut(make_zoo_model("mlp"), 1, 0);
  EXPECT_EQ(plan_.stages.size(), 1U);
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
double least_price(const Model& model, const PlanRequest& request, const std::vector<Stage>& stages,
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

PlanRequest random_request(Random& random) {
  PlanRequest request;
  request.cut = Cut::kHybrid;
  request.stages = 2 + draw(random, 2);
  request.workers = request.stages + draw(random, 3);
  request.speed.link_bytes_per_second = draw(random, 2) == 0 ? 1e8 : 8e9;
  return request;
}

Model random_perceptron(int layers, Random& random) {
  std::vector<int64_t> sizes;
  for (; layers >= 0; --layers) sizes.push_back(6 + draw(random, draw(random, 2) == 0 ? 15 : 400));
  return make_zoo_model("mlp", {sizes});
}

// How far the plan is from what a person would find who priced every boundary between groups by
// feature.
double over_the_best(const Model& model, const PlanRequest& request) {
  const Plan plan = std::get<Plan>(make_plan(model, request, *hold_everything()));
  return plan.bottleneck / least_price(model, request, plan.stages, 1, 1);
}

constexpr int64_t kEnough = int64_t{1} << 50;  // bytes

TEST(HybridCutOfRandomSizes, IsTheBestOfAllWhereTheyAreFew) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const Model model = random_perceptron(4 + draw(random, 5), random);
    PlanRequest request = random_request(random);
    request.by_feature.set();
    EXPECT_NEAR(over_the_best(model, request), 1, 1e-9) << seed;
  }
}

TEST(HybridCutOfRandomSizes, GoesBySampleWhereThatIsCheaper) {
  int cheaper = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const Model model = random_perceptron(4 + draw(random, 5), random);
    const double over = over_the_best(model, random_request(random));
    EXPECT_LE(over, 1 + 1e-9) << seed;
    if (over < 0.99) ++cheaper;
  }
  EXPECT_GT(cheaper, 3);
}

// A boundary moves to places near by only.
TEST(HybridCutOfRandomSizes, IsFoundWhereTheyAreMany) {
  for (const uint32_t seed : {1U, 2U, 3U, 4U, 5U, 7U}) {
    Random random(seed);
    const Model model = random_perceptron(32, random);
    PlanRequest request = random_request(random);
    request.stages = 3;  // 465 ways
    request.workers = 5;
    request.by_feature.set();
    EXPECT_NEAR(over_the_best(model, request), 1, 1e-9) << seed;
  }
}

int64_t largest_peak(const Plan& plan) {
  int64_t most = 0;
  for (const WorkerPrediction& worker : plan.workers) most = std::max(most, worker.peak_bytes);
  return most;
}

// Boundaries of another price may need less memory.
TEST(HybridCutUnderACap, TakesAnotherBoundaryWhereTheBestNeedsMore) {
  const Model model = make_zoo_model("lenet5");
  PlanRequest request;
  request.cut = Cut::kHybrid;
  request.workers = 4;
  request.by_feature.set();
  request.memory = kEnough;
  const Plan free = std::get<Plan>(make_plan(model, request, *hold_everything()));
  int fewer = 0;
  for (int percent = 99; percent >= 10; --percent) {
    request.memory = largest_peak(free) * percent / 100;
    const auto answer = make_plan(model, request, *hold_everything());
    const auto* plan = std::get_if<Plan>(&answer);
    if (plan == nullptr) break;
    EXPECT_LE(largest_peak(*plan), *request.memory);
    EXPECT_GE(plan->bottleneck, free.bottleneck * (1 - 1e-12));
    if (plan->stages[0].nodes != free.stages[0].nodes) ++fewer;
  }
  EXPECT_GT(fewer, 0);
}

// Of what the model computes.
bool has_rows_divided(const PlannedModel& planned) {
  for (NodeId node = 0; node < planned.model.nodes(); ++node)
    for (const ValueId output : planned.model.node(node).outputs)
      if (ops::describe(planned.plan.layouts[static_cast<size_t>(output)])
              .starts_with("split on axis 0"))
        return true;
  return false;
}

PlannedModel planned(const Model& model, const PlanRequest& request) {
  return std::get<PlannedModel>(plan_model(model, request, *hold_everything()));
}

struct BySampleCase {
  const char* model;
  ZooOptions options;
  int workers;
};

// By feature seq2seq has its recurrences rewritten, by sample it is as it was read.
class HybridCutThatGoesBySample : public ::testing::TestWithParam<BySampleCase> {
 protected:
  void SetUp() override {
    request_.cut = Cut::kHybrid;
    request_.workers = GetParam().workers;
  }
  const Model model_ = make_zoo_model(GetParam().model, GetParam().options);
  PlanRequest request_;
};

TEST_P(HybridCutThatGoesBySample, DoesSoUnderACapThatItIsWithin) {
  const PlannedModel free = planned(model_, request_);
  ASSERT_TRUE(has_rows_divided(free));
  for (const int64_t cap : {kEnough, largest_peak(free.plan)}) {
    request_.memory = cap;
    const PlannedModel capped = planned(model_, request_);
    EXPECT_TRUE(has_rows_divided(capped));
    EXPECT_LE(capped.plan.bottleneck, free.plan.bottleneck * (1 + 1e-12));
    EXPECT_LE(largest_peak(capped.plan), cap);
  }
}

TEST_P(HybridCutThatGoesBySample, FitsWhereGroupsByFeatureDo) {
  PlanRequest features = request_;
  features.by_feature.set();
  features.memory = kEnough;
  const PlannedModel wide = planned(model_, features);
  request_.memory = largest_peak(wide.plan);
  const PlannedModel narrow = planned(model_, request_);
  EXPECT_LE(largest_peak(narrow.plan), *request_.memory);
  EXPECT_LE(narrow.plan.bottleneck, wide.plan.bottleneck * (1 + 1e-12));
}

TEST_P(HybridCutThatGoesBySample, HasTheLargestBatchOfEitherWay) {
  request_.memory = largest_peak(planned(model_, request_).plan);
  const int64_t most = largest_batch(model_, request_, *hold_everything());
  EXPECT_GE(most, request_.batch);
  request_.batch = most;
  EXPECT_LE(largest_peak(planned(model_, request_).plan), *request_.memory);
}

INSTANTIATE_TEST_SUITE_P(Zoo, HybridCutThatGoesBySample,
                         ::testing::Values(BySampleCase{"mlp", {.width = 0.25}, 4},
                                           BySampleCase{"lenet5", {}, 3},
                                           BySampleCase{"seq2seq", {.width = 0.25}, 4}),
                         [](const auto& each) { return std::string(each.param.model); });

// Members that go by sample have all weights of their layers, and by feature all values: what fits
// may be one group in one way, another in the other.
TEST(HybridCutUnderACap, GoesWhicheverWayIsTheBestThatFits) {
  const Model model = make_zoo_model("lenet5", {.width = 0.5});
  PlanRequest request;
  request.cut = Cut::kHybrid;
  request.workers = 6;
  request.stages = 3;
  const auto bottleneck_of = [&](const GroupSet& by_feature) {
    PlanRequest asked = request;
    asked.by_feature = by_feature;
    const Model as_asked = model_for(model, asked);
    const auto plan = plan_within(as_asked, asked, *hold_everything());
    return plan ? plan->bottleneck : std::numeric_limits<double>::infinity();
  };
  const int64_t free = largest_peak(planned(model, request).plan);
  request.memory = 1;
  const auto none = plan_model(model, request, *hold_everything());
  const int64_t told = 1 + std::get<Infeasible>(none).over;
  int mixed = 0;
  for (const int64_t cap : {told, (told + free) / 2, free - 1, free}) {
    request.memory = cap;
    double least = std::numeric_limits<double>::infinity();
    for (unsigned some = 0; some < 8; ++some) least = std::min(least, bottleneck_of(some));
    const double of_one_way = std::min(bottleneck_of({}), bottleneck_of(GroupSet().set()));
    ASSERT_LT(least, std::numeric_limits<double>::infinity());
    EXPECT_LE(planned(model, request).plan.bottleneck, least * (1 + 1e-12)) << cap;
    mixed += least < of_one_way * 0.99 ? 1 : 0;
  }
  EXPECT_GT(mixed, 0);
}

// By feature four workers of a group have nothing to do, where a layer has three features.
TEST(HybridCutUnderACap, GoesBySampleWhereThereIsNoOtherWay) {
  const Model model = make_zoo_model("mlp", {{64, 3, 3, 3, 4}});
  PlanRequest request;
  request.cut = Cut::kHybrid;
  request.workers = 8;
  const PlannedModel free = planned(model, request);
  request.memory = largest_peak(free.plan);
  EXPECT_EQ(planned(model, request).plan.stages.size(), free.plan.stages.size());
  EXPECT_GE(largest_batch(model, request, *hold_everything()), request.batch);
  EXPECT_TRUE(fits(model, request, *hold_everything()));
  request.by_feature.set();
  EXPECT_THROW(planned(model, request), Error);
}

// What is told would do is looked for under ever lower caps, which lead to other boundaries.
TEST(HybridCutUnderACap, IsToldTheLeastUnderWhichAPlanIsFound) {
  const Model model = make_zoo_model("squeezenet", {.width = 0.25, .classes = 10});
  PlanRequest request;
  request.cut = Cut::kHybrid;
  request.stages = 3;
  request.workers = 5;
  request.batch = 2;
  request.micro_batches = 2;
  request.memory = 1;
  const Model rewritten = model_for(model, request);
  const auto refused = plan_or_shortage(rewritten, request, *hold_everything());
  Infeasible least = std::get<Infeasible>(refused);
  look_for_less(rewritten, request, *hold_everything(), least);
  EXPECT_LT(least.over, std::get<Infeasible>(refused).over) << "under a cap far below";
  request.memory = 1 + least.over;
  const auto plan = plan_within(rewritten, request, *hold_everything());
  ASSERT_TRUE(plan.has_value());
  EXPECT_LE(largest_peak(*plan), *request.memory);
  for (const int64_t part : {256, 4}) {
    PlanRequest lower = request;
    *lower.memory -= *request.memory / part;
    EXPECT_FALSE(fits(rewritten, lower, *hold_everything())) << "less by a part in " << part;
  }
}

// Each plan that is tried is lowered for its peaks where there is a cap, so they count the tries.
TEST(HybridCutOfManyLayers, TriesSomePlans) {
  const Model model = make_zoo_model("mlp", {std::vector<int64_t>(60, 8)});
  PlanRequest request;
  request.cut = Cut::kHybrid;
  request.stages = 8;
  request.workers = 8;
  request.by_feature.set();
  request.memory = int64_t{1} << 40;
  int tries = 0;
  const auto peaks = [&](const Assignment& assignment, std::optional<double>) {
    ++tries;
    return std::vector<int64_t>(assignment.stages.size(), 1);
  };
  ASSERT_TRUE(cut_hybrid({model, request, *hold_everything(), peaks}));
  EXPECT_GT(tries, 10);
  EXPECT_LE(tries, 50);
}

// fc1 to fc6 have 15 features each, fc7 to fc9 have 16.
TEST(HybridCutOfWideGroups, LeavesNobodyIdleWhereThatIsPossible) {
  const Model model = make_zoo_model("mlp", {{15, 15, 15, 15, 15, 15, 15, 16, 16, 16}});
  PlanRequest request;
  request.cut = Cut::kHybrid;
  request.stages = 3;
  request.workers = 48;
  request.pairs = false;
  const Plan plan = std::get<Plan>(make_plan(model, request, *hold_everything()));
  EXPECT_EQ(model.node(plan.stages[1].nodes.front()).name, "fc8");
  request.workers = 51;
  try {
    (void)make_plan(model, request, *hold_everything());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInfeasible);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("of stage 0 has features for all of its 17"));
  }
}

}  // namespace
}  // namespace kerf::partitioner
