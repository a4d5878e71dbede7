// Parts of one stage on one worker take turns (partitioner/turns.h): without them they wait for
// each other for ever.
#include "partitioner/turns.h"

#include <gmock/gmock.h>

#include "tests/partitioner/random_models.h"
#include "tests/schedmp/random_rows.h"

namespace kerf::schedmp {
namespace {

using partitioner::Instruction;
using partitioner::InstructionList;
using partitioner::Part;
using partitioner::Plan;

constexpr std::initializer_list<InstructionList Part::*> kLists = {
    &Part::forward, &Part::input_gradient, &Part::weight_gradient, &Part::backward};

bool shares_a_worker(const Plan& plan, const partitioner::Stage& stage) {
  return plan.workers_of(stage).size() < stage.parts.size();
}

class Turns : public ::testing::Test {
 protected:
  // Random plans in which some worker has several parts of a stage.
  template <class Look>
  void each_plan(const Look& look) {
    int seen = 0;
    for (unsigned seed = 1; seed <= 120; ++seed) {
      SCOPED_TRACE(seed);
      partitioner::Random random(seed);
      const auto model = random_net(partitioner::Family::kExact, random);
      const Plan plan = random_plan(model, {.workers = 3, .stages = 3}, random);
      if (std::none_of(plan.stages.begin(), plan.stages.end(),
                       [&](const auto& stage) { return shares_a_worker(plan, stage); }))
        continue;
      ++seen;
      const Schedule schedule = random_rows(model, plan, random);
      look(model, plan, lower(model, plan, lowering_for(schedule)), schedule);
    }
    EXPECT_GE(seen, 40);
  }
};

TEST_F(Turns, LetEverySchedulePass) {
  each_plan([](const auto& model, const Plan& plan, const auto& parts, const Schedule& schedule) {
    EXPECT_GE(verify(model, plan, parts, schedule, {}).smallest_safe_slots, 0);
  });
}

TEST_F(Turns, AreNeeded) {
  int stuck = 0;
  each_plan([&](const auto& model, const Plan& plan, auto parts, const Schedule& schedule) {
    for (Part& part : parts)
      for (const auto list : kLists) (part.*list).turns.clear();
    const Verdict verdict = verify(model, plan, parts, schedule, {});
    if (verdict.smallest_safe_slots >= 0) return;
    ++stuck;
    EXPECT_THAT(verdict.problems, ::testing::Contains(::testing::HasSubstr("deadlock")));
  });
  EXPECT_GE(stuck, 20);
}

// All turns of a stage together are one order in which nothing is received before it is sent, and
// each part keeps its own.
TEST_F(Turns, AreOneOrderOfAStage) {
  each_plan([](const auto&, const Plan& plan, const std::vector<Part>& parts, const Schedule&) {
    for (const partitioner::Stage& stage : plan.stages)
      for (const auto list : kLists) {
        std::map<int, const Instruction*> order;
        for (const int number : stage.parts) {
          const Part& part = parts[static_cast<size_t>(number)];
          const std::vector<int>& turns = (part.*list).turns;
          const auto alone = [&](int other) {
            return other == number || parts[static_cast<size_t>(other)].worker != part.worker;
          };
          if (std::all_of(stage.parts.begin(), stage.parts.end(), alone)) {
            EXPECT_TRUE(turns.empty());
            continue;
          }
          ASSERT_EQ(turns.size(), (part.*list).instructions.size());
          EXPECT_TRUE(std::is_sorted(turns.begin(), turns.end()));
          for (size_t i = 0; i < turns.size(); ++i)
            EXPECT_TRUE(order.emplace(turns[i], &(part.*list).instructions[i]).second);
        }
        std::map<int, int> sent_at;  // by route, of parts that take turns
        for (const auto& [turn, each] : order)
          if (each->kind == Instruction::Kind::kSend) sent_at[each->route] = turn;
        for (const auto& [turn, each] : order)
          if (const auto sent = sent_at.find(each->route);
              each->kind == Instruction::Kind::kReceive && sent != sent_at.end()) {
            EXPECT_LT(sent->second, turn);
          }
      }
  });
}

// What parts of one stage have at once lies side by side; stages share.
TEST(Transient, IsThatOfTheStageThatNeedsMost) {
  const auto part = [](int stage) {
    Part result;
    result.stage = stage;
    return result;
  };
  const std::vector<Part> parts{part(0), part(1), part(0), part(1)};
  const auto transient =
      partitioner::transient_of({&parts[0], &parts[1], &parts[2], &parts[3]}, {128, 256, 192, 0});
  EXPECT_THAT(transient.starts, ::testing::ElementsAre(0, 0, 128, 256));
  EXPECT_EQ(transient.bytes, 320);
}

}  // namespace
}  // namespace kerf::schedmp
