// Random models under random plans and random legal rows, as threads of one process run them: what
// was proved is what happens, and the answer is one worker's.
//
// KERF_SEEDS=FIRST-LAST in the environment chooses other seeds: the long sweep does.
#include <gmock/gmock.h>

#include "tests/partitioner/random_models.h"
#include "tests/partitioner/step_data.h"
#include "tests/schedmp/executor_crew.h"
#include "tests/schedmp/random_rows.h"
#include "tests/schedmp/weights_file.h"
#include "tests/support/seeds.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp {
namespace {

using partitioner::Family;
using partitioner::Model;
using partitioner::Numbers;
using partitioner::Placing;
using partitioner::Plan;
using partitioner::Random;
using tests::CrewStep;

class RandomRuns : public ::testing::TestWithParam<int> {
 protected:
  CrewStep run(const Model& model, const Plan& plan, Numbers numbers) {
    const Schedule schedule = random_rows(model, plan, random_);
    EXPECT_EQ(parse_schedule(write_schedule(schedule), "its text"), schedule);
    EXPECT_THAT(check_order(schedule), ::testing::IsEmpty());
    const auto parts = lower(model, plan, lowering_for(schedule));
    partitioner::Setting setting{.slots = 1, .optimizer_states = 0};
    Verdict verdict = verify(model, plan, parts, schedule, setting);
    EXPECT_GE(verdict.smallest_safe_slots, 0) << "a legal row is safe with some number of slots";
    if (!verdict.ok()) {
      setting.slots = verdict.smallest_safe_slots;
      verdict = verify(model, plan, parts, schedule, setting);
    }
    EXPECT_THAT(verdict.problems, ::testing::IsEmpty());
    CrewStep step =
        tests::run_crew(model, plan, schedule, verdict, setting, folder_ / "weights.safetensors",
                        {.normal = numbers == Numbers::kNormal});
    EXPECT_EQ(step.traffic, predict_traffic(model, plan, plan.batch));
    EXPECT_EQ(step.peak_bytes, verdict.peak_bytes);
    return step;
  }

  void expect_same_bits(Family family, Numbers numbers, Placing placing) {
    const Model model = random_net(family, random_);
    if (GetParam() % 2 == 1) placing.give_sizes(random_);
    write_kept(model, numbers, folder_ / "weights.safetensors");
    const Plan plan = random_plan(model, placing, random_);
    placing.workers = placing.stages = 1;
    const CrewStep one = run(model, random_plan(model, placing, random_), numbers);
    const CrewStep many = run(model, plan, numbers);
    EXPECT_EQ(many.loss, one.loss);
    ASSERT_EQ(many.weights.size(), one.weights.size());
    for (size_t i = 0; i < one.weights.size(); ++i)
      EXPECT_TRUE(many.weights[i].bytes == one.weights[i].bytes) << one.weights[i].name;
  }

  Random random_{static_cast<Random::result_type>(GetParam())};
  tests::TemporaryFolder folder_;
};

TEST_P(RandomRuns, OfWholeNumbersAnswerAsOneWorkerUnderAnyDivision) {
  expect_same_bits(Family::kExact, Numbers::kWhole, {.workers = 1 + GetParam() % 4});
}

TEST_P(RandomRuns, AnswerAsOneWorkerUnderLayerCuts) {
  expect_same_bits(Family::kScaled, Numbers::kNormal,
                   {.workers = 1 + GetParam() % 3, .stages = 5, .divides = false});
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRuns, tests::seeds(1, 15));

}  // namespace
}  // namespace kerf::schedmp
