// Divisions of every kind: parts that divide features, samples, rows of images and summed axes
// compute a step as one worker does, to rounding, and exactly where sums are.
#include <gmock/gmock.h>

#include "partitioner/builder.h"
#include "partitioner/zoo.h"
#include "tests/partitioner/random_cut.h"
#include "tests/partitioner/step_checks.h"

namespace kerf::partitioner {
namespace {

using ops::Layout;
using ::testing::HasSubstr;

const std::vector<int64_t> kOfEight = {4, 3, 0, 1};

StepResult exact(const Model& model, const Plan& plan) {
  return run(model, plan, kOfEight, Numbers::kWhole);
}

// Everything whole on part 0 until a test says otherwise.
Division whole(const Model& model, int64_t largest = 4) {
  Division division{.nodes = {}, .largest = largest};
  for (NodeId node = 0; node < model.nodes(); ++node)
    division.nodes.push_back(whole_division(model, node, 0));
  return division;
}

// Divides a node evenly along the axis of this name.
void divide(const Model& model, const std::string& node, const std::string& axis,
            const std::vector<int>& parts, Division& division) {
  const NodeId id = model.find_node(node);
  const ops::IterationSpace& space = model.op(id).space();
  const int along = space.find(axis);
  ASSERT_GE(along, 0) << node << " has no axis " << axis;
  const ops::Shape extents = space.extents().with_batch(division.largest);
  division.nodes[static_cast<size_t>(id)] =
      Layout::split(parts, extents.rank(), along,
                    ops::split_evenly(extents[along], static_cast<int>(parts.size())));
}

void divide_all(const Model& model, const std::string& axis, const std::vector<int>& parts,
                Division& division) {
  for (NodeId node = 0; node < model.nodes(); ++node)
    if (model.op(node).space().find(axis) >= 0)
      divide(model, model.node(node).name, axis, parts, division);
}

void expect_exact(const Model& model, const Division& division, int parts) {
  expect_same_bits(exact(model, plan_of(model, division, parts)),
                   exact(model, plan_of(model, whole(model), 1)));
}

class RandomCut : public ::testing::TestWithParam<int> {};

TEST_P(RandomCut, AnyDivisionEqualsOneWorkerToRounding) {
  Random random(static_cast<Random::result_type>(GetParam()));
  const Model m = random_model(random);
  const int parts = 2 + GetParam() % 4;
  const Plan plan = plan_of(m, random_division(m, parts, 4, random), parts);
  expect_close(run(m, plan), run(m, plan_of(m, Cut::kLayer, 1)), 1e-4F);
}

// Micro-batches of which some shares are empty, and one that is empty.
TEST_P(RandomCut, AnyDivisionComputesExactlyTheSameOfWholeNumbers) {
  Random random(static_cast<Random::result_type>(1000 + GetParam()));
  const Model m = with_sum_loss(random_model(random));
  const int parts = 2 + GetParam() % 5;
  const Plan plan = plan_of(m, random_division(m, parts, 4, random), parts);
  const std::vector<int64_t> sizes = {4, 3, 0, 1};
  const StepResult one = run(m, plan_of(m, Cut::kLayer, 1), sizes, Numbers::kWhole);
  expect_same_bits(run(m, plan, sizes, Numbers::kWhole), one);
}

TEST_P(RandomCut, LayerCutsEqualOneWorkerBitForBit) {
  Random random(static_cast<Random::result_type>(GetParam()));
  const Model m = random_model(random);
  const StepResult one = run(m, plan_of(m, Cut::kLayer, 1));
  for (const int workers : {2, 3, 4})
    expect_same_bits(run(m, plan_of(m, Cut::kLayer, workers)), one);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomCut, ::testing::Range(1, 41));

TEST(DividedStep, UsesOfAWeightOnTwoPartsShareItsHome) {
  const Model m = tied();
  Division division = whole(m);
  for (const char* node : {"b", "loss"})
    division.nodes[static_cast<size_t>(m.find_node(node))] =
        whole_division(m, m.find_node(node), 1);
  const Plan plan = plan_of(m, division, 2);
  expect_close(run(m, plan), run(m, plan_of(m, Cut::kLayer, 1)), 1e-6F);
  expect_exact(with_sum_loss(m), division, 2);
  const std::string text = describe(m, plan, lower(m, plan)[1]);
  EXPECT_THAT(text.substr(text.find("\nC  ")), R"(
C  acquire a slot -> 0
C  send d(w) (a piece) -> 0
S  d(w)[2-3, all] = d(w)
S  receive += d(w)[2-3, all] <- 0
S  release the gradient of w <- 0
S  measure d(w)[2-3, all]
S  acquire a slot -> 0
S  send the step's share (a piece) -> 0
S  the step's share = 0
U  receive the step's result <- 0
U  release the step vector <- 0
U  update home of w[2-3, all]
U  w = home of w[2-3, all]
U  acquire a slot -> 0
U  send home of w[2-3, all] -> 0
U  d(w) counts as 0
R  receive w (a piece) <- 0
R  release w <- 0
)");
}

// x ── h ──┬── scores ─────────── (+) ── loss
//          └── a ── b ── best ─────┘          a and b have one weight; a choice has no gradient
TEST(DividedStep, UsesOfAWeightWithoutAGradientEachHaveWhatTheyRead) {
  Builder builder("choice");
  const ValueId h = builder.gemm(builder.input("x", {ops::kBatch, 6}), 8, "h");
  const ValueId w = builder.parameter("w", {8, 8}, {ops::Initializer::Kind::kUniform, 0.5});
  const ValueId b = builder.matmul(builder.matmul(h, w, "a"), w, "b");
  const ValueId best = builder.node("ArgMax", {b}, {{"axis", int64_t{1}}}, "best");
  const ValueId number = builder.node("Cast", {best}, {{"to", int64_t{1}}}, "number");
  builder.loss(builder.add(builder.gemm(h, 5, "scores"), number, "sum"));
  const Model m = builder.build();
  Division division = whole(m);
  divide(m, "a", "columns", {0, 1}, division);
  division.nodes[static_cast<size_t>(m.find_node("b"))] = whole_division(m, m.find_node("b"), 2);
  const Plan plan = plan_of(m, division, 3);
  EXPECT_THAT(validate_decisions(m, plan), ::testing::IsEmpty());
  const auto& homes = plan.layouts[static_cast<size_t>(w)].shares;
  ASSERT_EQ(homes.size(), 3U);
  EXPECT_EQ(homes[0].box.axes[1], ops::IndexSet::range(0, 4));
  EXPECT_EQ(homes[1].box.axes[1], ops::IndexSet::range(4, 8));
  EXPECT_EQ(homes[2].box, ops::Box::whole(2));
  for (const Route& route : plan.routes) EXPECT_NE(route.value, w) << "nothing changes it";
  expect_close(run(m, plan), run(m, plan_of(m, Cut::kLayer, 1)), 1e-5F);
}

// Every part has the whole model and some rows: what a reduction of gradients is for.
TEST(DividedStep, RowsOnTwoReplicas) {
  const Model m = make_zoo_model("mlp", {{8, 12, 10, 10}});
  Division division = whole(m);
  divide_all(m, "samples", {0, 1}, division);
  const Plan plan = plan_of(m, division, 2);
  for (const Route& route : plan.routes) EXPECT_TRUE(is_of_step(m, route)) << "once a step";
  // Each way, a half of every gradient and of every parameter; and the step vector.
  EXPECT_EQ(plan.routes.size(), 2U * 2U * m.parameters().size() + 2);
  expect_close(run(m, plan), run(m, plan_of(m, Cut::kLayer, 1)), 1e-5F);
  expect_exact(with_sum_loss(m), division, 2);
}

TEST(DividedStep, SummedInputsOfAProduct) {
  const Model m = with_sum_loss(make_zoo_model("mlp", {{8, 12, 10, 10}}));
  Division division = whole(m);
  divide(m, "fc1", "outputs", {0, 1, 2}, division);
  divide(m, "relu1", "features", {0, 1, 2}, division);
  divide(m, "fc2", "inputs", {0, 1, 2}, division);
  expect_exact(m, division, 3);
}

TEST(DividedStep, RowsOfALoss) {
  const Model m = make_zoo_model("mlp", {{8, 12, 10}});
  Division division = whole(m);
  divide(m, "loss", "samples", {0, 1, 2}, division);
  expect_close(run(m, plan_of(m, division, 3)), run(m, plan_of(m, Cut::kLayer, 1)), 1e-5F);
}

// A loss that several parts compute is reported once.
TEST(DividedStep, AReplicatedLossCountsOnce) {
  const Model m = make_zoo_model("mlp", {{8, 12, 10}});
  Division division = whole(m);
  const auto loss = static_cast<size_t>(m.loss());
  division.nodes[loss] = Layout::replicated({0, 1}, 2);
  const Plan plan = plan_of(m, division, 2);
  int reports = 0;
  for (const Part& part : lower(m, plan))
    for (const Instruction& each : part.forward.instructions)
      reports += each.kind == Instruction::Kind::kLoss ? 1 : 0;
  EXPECT_EQ(reports, 1);
  expect_same_bits(run(m, plan), run(m, plan_of(m, Cut::kLayer, 1)));
}

Model images() {
  Builder b("images");
  const ValueId x = b.input("x", {ops::kBatch, 3, 8, 8});
  const ValueId h = b.relu(b.conv(x, 4, 3, 1, 1, "conv1"), "relu1");
  const ValueId g = b.max_pool(b.relu(b.conv(h, 6, 3, 1, 1, "conv2"), "relu2"), 2, 2, "pool");
  b.loss(b.gemm(b.flatten(g, "flatten"), 5, "head"));
  return b.build();
}

// Neighbours exchange the rows that windows overlap by, and sum their gradients.
TEST(DividedStep, RowsOfImages) {
  const Model m = images();
  Division division = whole(m);
  for (const char* node : {"conv1", "conv2"}) divide(m, node, "rows", {0, 1, 2}, division);
  for (const char* node : {"relu1", "relu2"}) divide(m, node, "axis 2", {0, 1, 2}, division);
  expect_close(run(m, plan_of(m, division, 3)), run(m, plan_of(m, Cut::kLayer, 1)), 1e-5F);
  expect_exact(with_sum_loss(m), division, 3);
}

TEST(DividedStep, ChannelsOfImages) {
  const Model m = images();
  Division division = whole(m);
  divide(m, "conv1", "outputs", {0, 1}, division);
  divide(m, "relu1", "features", {0, 1}, division);
  divide(m, "conv2", "inputs", {0, 1}, division);
  divide(m, "relu2", "features", {1, 0}, division);
  expect_close(run(m, plan_of(m, division, 2)), run(m, plan_of(m, Cut::kLayer, 1)), 1e-5F);
  expect_exact(with_sum_loss(m), division, 2);
}

class RandomImages : public ::testing::TestWithParam<int> {};

TEST_P(RandomImages, AnyDivisionEqualsOneWorker) {
  Random random(static_cast<Random::result_type>(GetParam()));
  const Model m = images();
  const int parts = 2 + GetParam() % 5;
  const Division division = random_division(m, parts, 4, random);
  expect_close(run(m, plan_of(m, division, parts)), run(m, plan_of(m, Cut::kLayer, 1)), 1e-4F);
  expect_exact(with_sum_loss(m), division, parts);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomImages, ::testing::Range(1, 21));

}  // namespace
}  // namespace kerf::partitioner
