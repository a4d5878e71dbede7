// Boundaries: what crosses them, and that moving one is told as the plan with it moved is.
#include "partitioner/boundaries.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "partitioner/bound.h"
#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::plan_of;
using testing::request_of;
using testing::sample_models;

// The plan as its text has it with the first operator of a stage changed, read again.
Plan with_stage_from(const Model& model, const Plan& plan, const BoundaryMove& move) {
  std::string text = write_plan(model, plan, PlanText::kDecisions);
  const int later = std::max(
      move.to, stages_of_nodes(plan, model.nodes())[static_cast<size_t>(move.nodes.front())]);
  const Stage& old = plan.stages[static_cast<size_t>(later)];
  NodeId first = move.nodes.front();  // where they go to the later stage
  if (move.to != later)
    first = *std::find_if(old.nodes.begin(), old.nodes.end(), [&](NodeId node) {
      return std::find(move.nodes.begin(), move.nodes.end(), node) == move.nodes.end();
    });
  const std::string was = format("\"{}\"", model.node(old.nodes.front()).name);
  const size_t at = text.find(was, text.find("\"stages\""));
  EXPECT_NE(at, std::string::npos) << was;
  text.replace(at, was.size(), format("\"{}\"", model.node(first).name));
  return read_plan(model, text, "moved.json");
}

TEST(Boundaries, AMoveIsToldAsThePlanWithItMoved) {
  const Model model = make_zoo_model("lenet5");
  const Plan plan = plan_of(model, request_of(Cut::kLayer, 3));
  const auto boundaries = boundaries_of(model, plan, *hold_everything());
  ASSERT_EQ(boundaries.size(), 2U);
  size_t moves = 0;
  for (const Boundary& boundary : boundaries)
    for (const BoundaryMove& move : boundary.moves) {
      EXPECT_EQ(figures_of(model, with_stage_from(model, plan, move)), move.then);
      ++moves;
    }
  EXPECT_GE(moves, 2U);
}

// Of a chain, nothing crosses but its one value, and all bytes are these.
TEST(Boundaries, OfAChainAreCrossedByOneValue) {
  const Model model = testing::small_mlp();
  const Plan plan = plan_of(model, request_of(Cut::kLayer, 3));
  int64_t bytes = 0;
  for (const Boundary& boundary : boundaries_of(model, plan, *hold_everything())) {
    ASSERT_EQ(boundary.crossing.size(), 1U);
    const Value& value = model.value(boundary.crossing[0]);
    EXPECT_EQ(boundary.bytes, 30 * value.spec.shape[1] * 4) << value.name;
    bytes += boundary.bytes;
  }
  EXPECT_EQ(figures_of(model, plan).cut_bytes, bytes);
}

// Skips cross every boundary on their way: what is made before it and read behind it.
TEST(Boundaries, AreCrossedByAllThatIsReadBehindThem) {
  for (const Model& model : sample_models()) {
    const Plan plan = plan_of(model, request_of(Cut::kLayer, 3));
    const std::vector<int> stage_of = stages_of_nodes(plan, model.nodes());
    for (const Boundary& boundary : boundaries_of(model, plan, *hold_everything())) {
      std::vector<ValueId> crossing;
      for (ValueId value = 0; value < model.values(); ++value) {
        const NodeId producer = model.value(value).producer;
        if (producer < 0 || stage_of[static_cast<size_t>(producer)] > boundary.before) continue;
        const auto& uses = model.uses(value);
        if (std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
              return stage_of[static_cast<size_t>(use.node)] > boundary.before;
            }))
          crossing.push_back(value);
      }
      EXPECT_EQ(boundary.crossing, crossing) << model.name();
    }
  }
}

// A search that is exact on chains leaves no boundary that were better elsewhere.
TEST(Boundaries, OfTheBestPlanNoMoveIsBetter) {
  for (const Model& model : sample_models())
    for (const int workers : {2, 3}) {
      const Plan plan = plan_of(model, request_of(Cut::kLayer, workers));
      for (const Boundary& boundary : boundaries_of(model, plan, *hold_everything())) {
        EXPECT_EQ(boundary.moves.size() + boundary.fixed.size(), 2U);
        for (const BoundaryMove& move : boundary.moves)
          EXPECT_GE(move.then.bottleneck, plan.bottleneck * (1 - 1e-9)) << model.name();
      }
    }
}

// What is divided anew is divided as the plan is, without pairs.
TEST(Boundaries, OfGroupsWithoutPairsHaveNoneWhereTheyMove) {
  const Model model = make_zoo_model("mlp", {{20, 16, 12, 8, 12, 16, 10}});
  PlanRequest request = request_of(Cut::kHybrid, 4);
  request.stages = 2;
  request.pairs = false;
  const Plan plan = plan_of(model, request);
  size_t moves = 0;
  for (const Boundary& boundary : boundaries_of(model, plan, *hold_everything()))
    for (const BoundaryMove& move : boundary.moves) {
      EXPECT_EQ(figures_of(model, with_stage_from(model, plan, move)), move.then);
      ++moves;
    }
  EXPECT_GT(moves, 0U);
  Plan with_pairs = plan;
  with_pairs.request->pairs = true;
  EXPECT_NE(boundaries_of(model, with_pairs, *hold_everything())[0].moves[0].then,
            boundaries_of(model, plan, *hold_everything())[0].moves[0].then);
}

TEST(Boundaries, OfGroupsMoveWithTheirDivisions) {
  const Model model = testing::small_mlp();
  PlanRequest request = request_of(Cut::kHybrid, 4);
  request.stages = 2;
  const Plan plan = plan_of(model, request);
  const auto boundaries = boundaries_of(model, plan, *hold_everything());
  ASSERT_EQ(boundaries.size(), 1U);
  ASSERT_FALSE(boundaries[0].moves.empty());
  for (const BoundaryMove& move : boundaries[0].moves) {
    EXPECT_NE(move.then, figures_of(model, plan));
    EXPECT_GT(move.then.peak_bytes, 0);
  }
}

// What a person wants together, apart or in its place does not move alone.
TEST(Boundaries, MovesHeedWhatWasAsked) {
  const Model model = make_zoo_model("lenet5");
  PlanRequest request = request_of(Cut::kLayer, 2);
  const auto moved = [&] {
    std::set<std::string> names;
    const Plan plan = plan_of(model, request);
    for (const Boundary& boundary : boundaries_of(model, plan, *hold_everything()))
      for (const BoundaryMove& move : boundary.moves)
        for (const NodeId node : move.nodes) names.insert(model.node(node).name);
    return names;
  };
  const std::set<std::string> free = moved();
  ASSERT_FALSE(free.empty());
  const std::string one = *free.begin();
  const std::string other = model.node(model.find_node(one) + 1).name;
  request.steering.together = {{one, other}};
  EXPECT_FALSE(moved().contains(one));
  request.steering.together.clear();
  const Plan plan = plan_of(model, request);
  request.steering.places = {{one, plan.stage_of(model.find_node(one))}};
  EXPECT_FALSE(moved().contains(one));
  request.steering.places.clear();
  const int its = plan.stage_of(model.find_node(one));
  const std::string there = model.node(plan.stages[static_cast<size_t>(1 - its)].nodes[1]).name;
  request.steering.apart = {{one, there}};
  EXPECT_FALSE(moved().contains(one));
}

TEST(Boundaries, OfOneStageAreNone) {
  const Model model = testing::small_mlp();
  const Plan plan = plan_of(model, request_of(Cut::kFeature, 2));
  EXPECT_THAT(boundaries_of(model, plan, *hold_everything()), IsEmpty());
}

// An operator alone in its stage cannot leave it.
TEST(Boundaries, AStageIsNotLeftEmpty) {
  Builder b("two");
  b.loss(b.gemm(b.input("x", {ops::kBatch, 4}), 3, "fc"));
  const Model model = b.build();
  const auto boundaries =
      boundaries_of(model, plan_of(model, request_of(Cut::kLayer, 2)), *hold_everything());
  ASSERT_EQ(boundaries.size(), 1U);
  EXPECT_THAT(boundaries[0].moves, IsEmpty());
  EXPECT_THAT(boundaries[0].fixed, ElementsAre("nothing of stage 0 can be in stage 1",
                                               "nothing of stage 1 can be in stage 0"));
}

}  // namespace
}  // namespace kerf::partitioner
