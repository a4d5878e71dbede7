// Memory of random plans: what is predicted is what the verifier finds by walking the instructions,
// whatever rows the predictions were told of; and no less where stages recompute, of which parts
// forget what they were sent at different times.
//
// KERF_SEEDS=FIRST-LAST in the environment chooses other seeds: the long sweep does.
#include <gmock/gmock.h>

#include <algorithm>

#include "partitioner/cut.h"
#include "schedmp/schedules.h"
#include "tests/partitioner/random_models.h"
#include "tests/schedmp/random_rows.h"
#include "tests/support/seeds.h"

namespace kerf::schedmp {
namespace {

using partitioner::draw;
using partitioner::Family;
using partitioner::Model;
using partitioner::Plan;
using partitioner::PlanRequest;
using partitioner::Random;
using partitioner::SlotPlace;

class RandomMemory : public ::testing::TestWithParam<int> {
 protected:
  // Proves the rows, with as many slots as that takes.
  void expect_proved(const Model& model, const Plan& plan, const Schedule& schedule,
                     const partitioner::InFlight& in_flight, PlanRequest request) {
    const auto parts = lower(model, plan, lowering_for(schedule));
    Verdict verdict = verify(model, plan, parts, schedule, request.setting);
    if (!verdict.ok()) {
      ASSERT_GE(verdict.smallest_safe_slots, 0);
      request.setting.slots = verdict.smallest_safe_slots;
      verdict = verify(model, plan, parts, schedule, request.setting);
    }
    ASSERT_THAT(verdict.problems, ::testing::IsEmpty());
    const auto predicted = predict(model, plan, request, in_flight);
    ASSERT_EQ(predicted.size(), verdict.peak_bytes.size());
    const bool recomputes = std::ranges::any_of(
        schedule.rows, [](const std::vector<Action>& row) { return !recomputed_in(row).empty(); });
    for (size_t w = 0; w < predicted.size(); ++w) {
      SCOPED_TRACE(kerf::format("{}, worker {} of {}", schedule.name, w, predicted.size()));
      if (recomputes)
        EXPECT_GE(predicted[w].peak_bytes, verdict.peak_bytes[w]);
      else
        EXPECT_EQ(predicted[w].peak_bytes, verdict.peak_bytes[w]);
    }
  }

  Random random_{static_cast<Random::result_type>(GetParam())};
};

TEST_P(RandomMemory, IsWhatIsProved) {
  for (const bool divides : {false, true})
    for (const SlotPlace place : {SlotPlace::kSender, SlotPlace::kBothEnds, SlotPlace::kExported}) {
      const Model model = random_net(Family::kScaled, random_);
      const Plan plan = random_plan(
          model, {.workers = 1 + draw(random_, 4), .stages = 5, .divides = divides}, random_);
      PlanRequest request;
      request.batch = plan.batch;
      request.micro_batches = plan.micro_batches;
      request.setting.slots = 1 + draw(random_, 2);
      request.setting.slot_place = place;
      request.setting.optimizer_states = draw(random_, 2);
      Random other = random_;
      for (const Recomputes recomputes : {Recomputes::kSome, Recomputes::kNothing}) {
        Random& random = recomputes == Recomputes::kSome ? other : random_;
        const Schedule rows = random_rows(model, plan, random, Order::kPossible, recomputes);
        expect_proved(model, plan, rows, *in_flight_of(rows), request);
      }
    }
}

// Each stage on a worker of its own, or several on one; by the names alone, as who plans knows
// them.
TEST_P(RandomMemory, IsWhatIsProvedOfNamedSchedules) {
  for (const char* name : {"gpipe", "1f1b", "forward-only"})
    for (const bool alone : {false, true}) {
      const Model model = random_net(Family::kScaled, random_);
      Plan plan = random_plan(model, {.stages = 5, .divides = false, .micro_batches = 5}, random_);
      for (size_t part = 0; alone && part < plan.binding.size(); ++part)
        plan.binding[part] = static_cast<int>(part);
      PlanRequest request;
      request.batch = plan.batch;
      request.micro_batches = plan.micro_batches;
      const auto in_flight = in_flight_of(std::string(name));
      request.trains = in_flight->trains();
      expect_proved(model, plan, make_schedule(name, model, plan), *in_flight, request);
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomMemory, tests::seeds(1, 12));
// With stages that read on in what they sent.
INSTANTIATE_TEST_SUITE_P(OfLateReaders, RandomMemory, testing::Values(1033, 1159, 1386));

}  // namespace
}  // namespace kerf::schedmp
