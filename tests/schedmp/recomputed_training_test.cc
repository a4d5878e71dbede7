// What a schedule forgets and makes again has the same bits, and takes the memory that was proved:
// less.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "schedmp/schedules.h"
#include "tests/schedmp/named_schedules.h"
#include "tests/schedmp/trained.h"

namespace kerf::schedmp {
namespace {

using partitioner::Model;
using tests::Answer;
using tests::Case;
using tests::train;

class Recomputed : public testing::TestWithParam<std::string> {};

TEST_P(Recomputed, AnswersAsOneWorkerBitForBit) {
  for (const char* source : {"12-24-18-10-5", "braided"}) {
    SCOPED_TRACE(source);
    Case c{source, partitioner::Cut::kLayer, 1, "gpipe", 22, 5, 4};
    const Answer alone = train(c);
    const Schedule schedule = make_schedule(GetParam(), chain_of_shape(GetParam(), 2), 5);
    c.text = write_schedule(recomputed(schedule));
    c.slots = 7;
    const Answer again = train(c);
    tests::expect_same_bits(again, alone);
    tests::expect_counted_as_predicted(again);
    tests::expect_memory_as_predicted(again);
    tests::expect_same_when_late(c, again);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, Recomputed,
                         testing::ValuesIn(kerf::tests::training_schedules()),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// Masks, pooling's places and running statistics come again as they were, divided or not.
class Forgotten : public testing::TestWithParam<std::tuple<std::string, partitioner::Cut>> {};

TEST_P(Forgotten, ComesAgainAsItWas) {
  const auto& [source, cut] = GetParam();
  Case c{source, cut, 2, "gpipe", 22, 4, 4};
  const Answer kept = train(c);
  const Model model = tests::make_model(source);
  const partitioner::Plan plan = tests::plan_of(model, c);
  c.text = write_schedule(recomputed(make_schedule("gpipe", model, plan)));
  const Answer again = train(c);
  tests::expect_same_bits(again, kept);
  tests::expect_counted_as_predicted(again);
  tests::expect_memory_as_predicted(again);
  if (source != "lenet5") tests::expect_same_when_late(c, again);
  const auto all = [](const Answer& answer) {
    return std::accumulate(answer.proved_bytes.begin(), answer.proved_bytes.end(), int64_t{0});
  };
  EXPECT_LE(all(again), all(kept));
}

INSTANTIATE_TEST_SUITE_P(Cuts, Forgotten,
                         testing::Combine(testing::Values("dropping", "lenet5", "filtering"),
                                          testing::Values(partitioner::Cut::kLayer)));
INSTANTIATE_TEST_SUITE_P(DividedCuts, Forgotten,
                         testing::Combine(testing::Values("dropping", "braided"),
                                          testing::Values(partitioner::Cut::kFeature,
                                                          partitioner::Cut::kBatch,
                                                          partitioner::Cut::kHybrid)));

// A row may recompute some micro-batches and not others.
TEST(Recomputation, IsOfEachMicroBatchByItself) {
  Case c{"braided", partitioner::Cut::kLayer, 1, "gpipe", 22, 3, 4};
  const Answer alone = train(c);
  c.text =
      "kerf-schedule 1\nname some\nworkers 2\nmicro-batches 3\nstage 0 on 0\nstage 1 on 1\n"
      "row 0: 0F0 0F1 0F2 0B0 0RECOMPUTE1 0RECOMPUTE2 0I1 0W1 0B2 0U\n"
      "row 1: 1F0 1F1 1RECOMPUTE0 1B0 1F2 1B1 1RECOMPUTE2 1I2 1W2 1U\n";
  const Answer some = train(c);
  tests::expect_same_bits(some, alone);
  tests::expect_memory_as_predicted(some);
  tests::expect_same_when_late(c, some);
}

// Two replicas, each with its own.
TEST(Recomputation, GoesWithReplicas) {
  Case c{"12-24-18-10-5", partitioner::Cut::kLayer, 2, "chimera", 22, 4, 4};
  const Answer kept = train(c);
  const Model model = tests::make_model(c.source);
  c.text = write_schedule(recomputed(make_schedule("chimera", model, tests::plan_of(model, c))));
  const Answer again = train(c);
  tests::expect_same_bits(again, kept);
  tests::expect_memory_as_predicted(again);
}

}  // namespace
}  // namespace kerf::schedmp
