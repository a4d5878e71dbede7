// Lowering: the parts of every cut, run together, compute what one worker computes. Layer cuts bit
// for bit, cuts inside operators to rounding; and the lists keep their promises (part_runner.h).
// Divisions that no cut makes are in divided_step_test.cc.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "partitioner/builder.h"
#include "partitioner/channels_last.h"
#include "partitioner/zoo.h"
#include "tests/partitioner/step_checks.h"

namespace kerf::partitioner {
namespace {

using ops::Layout;
using ::testing::HasSubstr;

// Three uses of one tensor, a skip and a branch that meet.
Model branching() {
  Builder b("branching");
  const ValueId h = b.relu(b.gemm(b.input("x", {ops::kBatch, 6}), 10));
  const ValueId left = b.relu(b.gemm(h, 10));
  const ValueId right = b.gemm(b.gemm(h, 7), 10);
  b.loss(b.gemm(b.add(b.add(left, right), h), 10));
  return b.build();
}

struct Case {
  std::string name;
  Model model;
};
std::vector<Case> models() {
  return {{"mlp", make_zoo_model("mlp", {{8, 12, 10, 10}})},
          {"lenet5", make_zoo_model("lenet5")},
          {"lenet5_channels_last", channels_last(make_zoo_model("lenet5"))},
          {"branching", branching()}};
}

class EveryCut : public ::testing::TestWithParam<std::tuple<size_t, int>> {
 protected:
  Model model() const { return models()[std::get<0>(GetParam())].model; }
  int workers() const { return std::get<1>(GetParam()); }

  // The answer of one worker (0: bit for bit), by the messages and bytes that were predicted.
  void expect_as_one_worker(Cut cut, float tolerance) const {
    const Model m = model();
    const Plan plan = plan_of(m, cut, workers());
    const std::vector<int64_t> sizes = plan.sizes().of(plan.batch);
    const StepResult one = run(m, plan_of(m, Cut::kLayer, 1), sizes);
    EXPECT_GT(one.losses[0], 0);
    const StepResult result = run(m, plan, sizes);
    if (tolerance > 0)
      expect_close(result, one, tolerance);
    else
      expect_same_bits(result, one);
    EXPECT_EQ(result.traffic, predict_traffic(m, plan, plan.batch));
  }
};

TEST_P(EveryCut, LayerCutEqualsOneWorkerBitForBit) { expect_as_one_worker(Cut::kLayer, 0); }
TEST_P(EveryCut, FeatureCutEqualsOneWorkerToRounding) {
  expect_as_one_worker(Cut::kFeature, 1e-5F);
}
TEST_P(EveryCut, HybridCutEqualsOneWorkerToRounding) { expect_as_one_worker(Cut::kHybrid, 1e-5F); }

TEST_P(EveryCut, LayerCutEqualsOneWorkerWithAnEmptyMicroBatch) {
  const Model m = model();
  const std::vector<int64_t> sizes = {1, 1, 0};
  expect_same_bits(run(m, plan_of(m, Cut::kLayer, workers()), sizes),
                   run(m, plan_of(m, Cut::kLayer, 1), sizes));
}

INSTANTIATE_TEST_SUITE_P(ModelsAndWorkers, EveryCut,
                         ::testing::Combine(::testing::Range<size_t>(0, 3), ::testing::Range(2, 6)),
                         [](const auto& of) {
                           return format("{}_over_{}", models()[std::get<0>(of.param)].name,
                                         std::get<1>(of.param));
                         });

TEST(Lower, FreeCutEqualsOneWorkerToRounding) {
  const Model m = make_zoo_model("mlp", {{8, 12, 10, 10}});
  const Plan plan = plan_of(m, Cut::kFree, 3, R"({"kerf_shares": 1, "shares": {
      "fc1": {"0": "0,2,4-7", "2": "1,3,8-11"}, "relu1": {"0": "all", "1": "all"},
      "fc2": {"0": "9", "1": "0-4,8", "2": "5-7"}, "loss": {"2": "all"}}})");
  expect_close(run(m, plan), run(m, plan_of(m, Cut::kLayer, 1)), 1e-5F);
}

TEST(Lower, UsesOfATiedParameterHaveAccumulatorsOfTheirOwn) {
  const Model m = tied();
  const Part part = lower(m, plan_of(m, Cut::kLayer, 1))[0];
  const auto kinds = [](const InstructionList& list) {
    std::vector<Instruction::Kind> found;
    for (const Instruction& each : list.instructions) found.push_back(each.kind);
    return found;
  };
  using Kind = Instruction::Kind;
  using ::testing::ElementsAre;
  ASSERT_THAT(kinds(part.reduce), ElementsAre(Kind::kCopy, Kind::kMeasure));
  ASSERT_THAT(kinds(part.update), ElementsAre(Kind::kUpdate, Kind::kClear, Kind::kClear));
  // b's, made first, takes in a's.
  const Instruction& sum = part.reduce.instructions[0];
  EXPECT_TRUE(sum.moves[1].add);
  EXPECT_NE(sum.moves[0].local, sum.moves[1].local);
  for (const Move& move : sum.moves)
    EXPECT_EQ(part.locals[static_cast<size_t>(move.local)].kind, LocalKind::kParameterGradient);
  EXPECT_EQ(part.update.instructions[0].other, sum.moves[1].local);
  EXPECT_EQ(part.reduce.instructions[1].local, sum.moves[1].local);
}

TEST(Lower, AnEmptyListTakesNoMemory) {
  const Model m = tied();
  const std::vector<Part> parts = lower(m, plan_of(m, Cut::kLayer, 1));
  const Part& part = parts[0];  // a copy would have no room to spare in any case
  EXPECT_EQ(part.forward.places.size(), part.locals.size());
  for (const InstructionList* list : {&part.checkpointed_forward, &part.recompute, &part.fetch}) {
    ASSERT_TRUE(list->instructions.empty());
    EXPECT_EQ(list->places.capacity() + list->reserve.capacity() + list->handed.capacity(), 0);
  }
}

TEST(Lower, WhatIsSentWholeIsMadeInTheSlotAndWhatComesWholeIsReadInPlace) {
  const Model m = make_zoo_model("mlp", {{8, 8, 8, 3}});
  Plan plan = plan_of(m, Cut::kLayer, 2);
  const auto parts = lower(m, plan);
  std::string text;
  for (const Part& part : parts) text += describe(m, plan, part);
  EXPECT_EQ(text, R"(part 0 of stage 0 on worker 0
F  take what W reads
F  read image
F  acquire a slot -> 1
F  fc1.output = Gemm(image, fc1.weight, fc1.bias)
F  relu1.output = Relu(fc1.output) in place
F  send relu1.output in its slot, retained -> 1
I  receive d(relu1.output) in place <- 1
I  take what I hands to W
I  d(fc1.output) = gradient of relu1(d(relu1.output))
I  release the gradient of relu1.output <- 1
I  retire relu1.output -> 1
W  d(fc1.weight), d(fc1.bias) = gradient of fc1(d(fc1.output))
W  give what W reads
W  give what I hands to W
B  receive d(relu1.output) in place <- 1
B  d(fc1.output) = gradient of relu1(d(relu1.output))
B  release the gradient of relu1.output <- 1
B  retire relu1.output -> 1
B  d(fc1.weight), d(fc1.bias) = gradient of fc1(d(fc1.output))
B  give what W reads
S  measure d(fc1.weight)
S  measure d(fc1.bias)
V  receive += the step's share (a piece) <- 1
V  release the step vector <- 1
V  the step's result from the step's share
V  acquire a slot -> 1
V  send the step's result -> 1
V  the step's share = 0
U  update fc1.weight
U  update fc1.bias
U  d(fc1.weight) counts as 0
U  d(fc1.bias) counts as 0
part 1 of )" + text.substr(text.find("stage 1")));
  EXPECT_THAT(text, HasSubstr("F  receive relu1.output in place <- 0\n"));
  EXPECT_THAT(text, HasSubstr("I  acquire a slot -> 0\n"));
  EXPECT_THAT(text, HasSubstr("I  send d(relu1.output) in its slot -> 0\n"));
}

std::vector<Instruction> sends_of(const Part& part) {
  std::vector<Instruction> sends;
  for (const Instruction& each : part.forward.instructions)
    if (each.kind == Instruction::Kind::kSend) sends.push_back(each);
  return sends;
}

// Of three parts that share a layer each sends its slice to both others: it is made in the slot of
// one message, and packed from there for the other.
TEST(Lower, WhatGoesToTwoPartsIsMadeInOneSlot) {
  const Model m = make_zoo_model("mlp", {{8, 12, 12, 3}});
  PlanRequest request;
  request.cut = Cut::kFeature;
  request.workers = 3;
  request.batch = 10;
  request.micro_batches = 3;
  request.pairs = false;
  const Plan plan = std::get<Plan>(make_plan(m, request, *hold_everything()));
  for (const Part& part : lower(m, plan)) {
    std::map<int, std::vector<bool>> in_slot;  // by root: of each send
    for (const Instruction& send : sends_of(part))
      in_slot[root_of(part, send.moves.empty() ? send.local : send.moves[0].local)].push_back(
          send.moves.empty());
    int twice = 0;
    for (const auto& [root, sends] : in_slot) {
      // Of the scores each gets other rows, which it counts the loss of.
      const ValueId value = part.locals[static_cast<size_t>(root)].value;
      if (m.value(value).name == "fc3.output") continue;
      EXPECT_EQ(std::count(sends.begin(), sends.end(), true), 1) << root;
      twice += sends.size() == 2 ? 1 : 0;
    }
    EXPECT_GT(twice, 0);
  }
}

// What was sent is not written to: relu, which may write over h, would do so after the send.
TEST(Lower, WhatIsWrittenAfterItsSendIsPacked) {
  Builder b("overwritten");
  const ValueId h = b.gemm(b.input("x", {ops::kBatch, 6}), 8, "h");
  const ValueId left = b.gemm(b.relu(h), 8, "left");
  b.loss(b.gemm(b.add(left, h), 3, "last"));
  const Model m = b.build();
  const Plan plan = plan_of(m, Cut::kLayer, 2);
  for (const Part& part : lower(m, plan)) {
    std::set<int> committed;  // roots
    for (const Instruction& each : part.forward.instructions) {
      if (each.kind == Instruction::Kind::kSend && each.moves.empty())
        committed.insert(root_of(part, each.local));
      if (each.kind != Instruction::Kind::kForward) continue;
      for (const int output : part.calls[static_cast<size_t>(each.call)].outputs)
        EXPECT_FALSE(committed.contains(root_of(part, output)));
    }
  }
  expect_same_bits(run(m, plan), run(m, plan_of(m, Cut::kLayer, 1)));
}

// Where nothing leaves a stage, or the plan says so, an output's gradient goes as soon as its node
// has both of its gradients.
TEST(Lower, InterleavedBHoldsFewerGradientsAtOnce) {
  const Model m = make_zoo_model("mlp", {{64, 64, 64, 64, 64, 3}});
  Plan plan = plan_of(m, Cut::kLayer, 1);
  EXPECT_TRUE(interleaves(plan, 0)) << "no gradient leaves the stage";
  plan = plan_of(m, Cut::kLayer, 2);
  EXPECT_TRUE(interleaves(plan, 0));
  EXPECT_FALSE(interleaves(plan, 1));
  const StepResult first = run(m, plan);
  const int64_t before = lower(m, plan)[1].bytes_of(RegionKind::kTransient);
  plan.stages[1].interleaved = true;
  EXPECT_TRUE(interleaves(plan, 1));
  expect_same_bits(run(m, plan), first);
  EXPECT_LT(lower(m, plan)[1].bytes_of(RegionKind::kTransient), before);
}

TEST(Lower, ForwardOnlyKeepsNothing) {
  for (const Case& each : models())
    for (const Cut cut : {Cut::kLayer, Cut::kFeature}) {
      const Plan plan = plan_of(each.model, cut, 2);
      expect_dense(each.model, plan, false);
      const auto with = lower(each.model, plan);
      const auto without = lower(each.model, plan, {.gradients = false});
      for (size_t p = 0; p < with.size(); ++p) {
        for (const RegionKind region :
             {RegionKind::kKept, RegionKind::kKeptForWeights, RegionKind::kHanded})
          EXPECT_EQ(without[p].bytes_of(region), 0);
        EXPECT_TRUE(without[p].backward.instructions.empty());
        EXPECT_TRUE(without[p].update.instructions.empty());
        ASSERT_EQ(without[p].calls.size(), with[p].calls.size());
        for (size_t i = 0; i < without[p].locals.size(); ++i)
          EXPECT_EQ(without[p].locals[i].value, with[p].locals[i].value) << "numbers agree";
      }
    }
}

// Values of unequal rank meet while gradients are sent ready summed.
TEST(Lower, AResidualBlockCutAfterItsFirstRelu) {
  Builder b("residual");
  const ValueId x = b.input("x", {ops::kBatch, 3, 8, 8});
  const ValueId h = b.relu(b.conv(x, 4, 3, 1, 0, "conv1"), "relu1");
  const ValueId sum = b.add(b.conv(h, 4, 1, 1, 0, "conv2"), h, "sum");
  b.loss(b.gemm(b.flatten(sum), 5, "head"));
  const Model m = b.build();
  const StepResult one = run(m, plan_of(m, Cut::kLayer, 1));
  for (const int workers : {2, 3}) expect_same_bits(run(m, plan_of(m, Cut::kLayer, workers)), one);
}

// Several stages of a worker: parts are what they were, wherever they are bound.
TEST(Lower, BindingSaysOnWhichWorkerAPartIs) {
  const Model m = make_zoo_model("mlp", {{8, 12, 10, 10}});
  Plan plan = plan_of(m, Cut::kLayer, 3);
  const StepResult apart = run(m, plan);
  plan.binding = {0, 1, 0};
  const auto parts = lower(m, plan);
  EXPECT_EQ(parts[2].worker, 0);
  EXPECT_EQ(parts[2].stage, 2);
  expect_same_bits(run(m, plan), apart);
}

std::string refusal(const Model& model, const Plan& plan) {
  try {
    lower(model, plan);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "not refused";
}

TEST(Lower, RefusesByNameWhatNoOperatorDivides) {
  const Model m = make_zoo_model("mlp", {{8, 8, 3}});
  const Plan sound = plan_of(m, Cut::kLayer, 2);
  EXPECT_EQ(refusal(m, sound), "not refused");

  Plan plan = sound;
  const auto loss = static_cast<size_t>(m.loss());
  plan.division.nodes[loss] = Layout::split({0, 1}, 2, 1, ops::split_evenly(3, 2));
  EXPECT_THAT(refusal(m, plan), HasSubstr("a row's denominator needs the scores of every class"));
}

}  // namespace
}  // namespace kerf::partitioner
