// Wherever the parts of a plan are bound, and however a stage is divided, the answer is one
// worker's: several stages on a worker, several parts of a stage, and every cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "schedmp/schedules.h"
#include "tests/schedmp/named_schedules.h"
#include "tests/schedmp/trained.h"

namespace kerf::schedmp {
namespace {

using partitioner::Cut;
using tests::Answer;
using tests::Case;
using tests::expect_counted_as_predicted;
using tests::expect_memory_as_predicted;
using tests::expect_same_bits;
using tests::expect_same_when_late;
using tests::train;

// I and W apart, and the reduction an action of its own; V-shaped: two workers and back;
// interleaved: round and round.
const char* const kApart =
    "kerf-schedule 1\nname apart\nworkers 2\nmicro-batches 3\nstage 0 on 0\nstage 1 on 1\n"
    "row 0: 0F0 0F1 0F2 0I0 0I1 0W0 0I2 0W1 0W2 0REDUCE_GRAD 0U\n"
    "row 1: 1F0 1I0 1F1 1I1 1F2 1W0 1I2 1W1 1W2 1U\n";
const char* const kVShaped =
    "kerf-schedule 1\nname v\nworkers 2\nmicro-batches 2\n"
    "stage 0 on 0\nstage 1 on 1\nstage 2 on 1\nstage 3 on 0\n"
    "row 0: 0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1 0U 3U\n"
    "row 1: 1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1 1U 2U\n";
const char* const kInterleaved =
    "kerf-schedule 1\nname round\nworkers 2\nmicro-batches 2\n"
    "stage 0 on 0\nstage 1 on 1\nstage 2 on 0\nstage 3 on 1\n"
    "row 0: 0F0 0F1 2F0 2F1 2I0 2W0 2B1 0B0 0I1 0W1 0U 2U\n"
    "row 1: 1F0 1F1 3F0 3B0 3F1 3B1 3U 1B0 1B1 1U\n";

class Placed : public testing::TestWithParam<std::tuple<std::string, const char*>> {};

TEST_P(Placed, StagesOfAFileAnswerAsOneWorkerBitForBit) {
  const auto [source, text] = GetParam();
  const int micro_batches = parse_schedule(text, "test").micro_batches;
  Case c{source, Cut::kLayer, 1, "gpipe", 22, micro_batches};
  const Answer alone = train(c);
  c.text = text;
  const Answer together = train(c);
  expect_same_bits(alone, together);
  expect_counted_as_predicted(together);
  expect_memory_as_predicted(together);
  expect_same_when_late(c, together);
  // What stays on a worker is counted apart.
  int64_t local = 0, crossed = 0, all = 0;
  for (const WorkerFigures& worker : together.workers) {
    local += worker.local_messages;
    crossed += worker.messages;
  }
  for (const RouteFigures& route : together.routes) all += route.messages;
  EXPECT_EQ(local + crossed, all);
  if (text == kVShaped) {
    EXPECT_GT(local, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, Placed,
                         testing::Combine(testing::Values("12-24-18-10-5", "braided"),
                                          testing::Values(kApart, kVShaped, kInterleaved)));

// Every synchronous schedule of one replica, of two workers and of three, where they have few
// micro-batches and where they have many.
class BuiltIn : public testing::TestWithParam<std::string> {};

TEST_P(BuiltIn, AnswersAsOneWorkerBitForBit) {
  for (const auto& [workers, micro_batches] : {std::pair(2, 3), std::pair(3, 7)})
    for (const char* source : {"12-24-18-10-5", "braided"}) {
      Case c{source, Cut::kLayer, 1, "gpipe", 22, micro_batches, 4};
      const Answer alone = train(c);
      const Pipeline pipeline = chain_of_shape(GetParam(), workers);
      c.text = write_schedule(make_schedule(GetParam(), pipeline, micro_batches));
      c.slots = 7;  // values of "braided" go past stages
      const Answer together = train(c);
      expect_same_bits(alone, together);
      expect_counted_as_predicted(together);
      expect_memory_as_predicted(together);
    }
}

INSTANTIATE_TEST_SUITE_P(Schedules, BuiltIn, testing::ValuesIn(kerf::tests::training_schedules()),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// Shares of a stage on fewer workers than there are shares: the sums are the same, and so are the
// bits.
TEST(Training, PartsOfAStageMayShareAWorker) {
  struct Binding {
    Cut cut;
    std::vector<int> workers;
  };
  for (const auto& [cut, workers] :
       {Binding{Cut::kFeature, {0, 0, 1, 1}}, Binding{Cut::kFeature, {1, 0, 1, 0}},
        Binding{Cut::kFeature, {0, 0, 0, 0}}, Binding{Cut::kHybrid, {0, 1, 1, 0}}})
    for (const char* source : {"12-24-18-10-5", "braided"}) {
      Case c{source, cut, 4, "1f1b"};
      const Answer apart = train(c);
      c.binding = workers;
      const Answer together = train(c);
      expect_same_bits(together, apart);
      expect_counted_as_predicted(together);
      expect_memory_as_predicted(together);
    }
}

// Each part reports its samples of the loss, in evaluations too.
TEST(Training, SharesOfTheLossAddUpOnAWorker) {
  Case c{"12-24-18-10-5", Cut::kFree, 2, "1f1b"};
  c.shares = R"({"kerf_shares": 1, "shares": {"loss": {"0": {"samples": "0-1"},
                                                      "1": {"samples": "2-5"}}}})";
  const Answer apart = train(c);
  c.binding = {0, 0};
  const Answer together = train(c);
  EXPECT_EQ(together.losses, apart.losses);
  EXPECT_NEAR(together.evaluation_loss, apart.evaluation_loss, 1e-9);
  EXPECT_EQ(together.correct, apart.correct);
}

struct CutCase {
  Cut cut;
  std::string source;
  std::string shares;
};

class CutsAgree : public testing::TestWithParam<std::tuple<int, int>> {
 public:
  static std::vector<CutCase> cases() {
    return {
        {Cut::kFeature, "12-24-18-10-5", ""},
        {Cut::kHybrid, "12-24-18-10-5", ""},
        {Cut::kFeature, "braided", ""},
        {Cut::kFree, "12-24-18-10-5",
         R"({"kerf_shares": 1, "shares": {"fc1": {"0": "1-3,7,9-20", "1": "0,4-6,8,21-23"}}})"}};
  }
};

TEST_P(CutsAgree, WithOneWorkerWithin1e4) {
  const auto [workers, which] = GetParam();
  const CutCase cut = cases()[static_cast<size_t>(which)];
  Case c{cut.source, Cut::kLayer, 1, "1f1b", 22, 4, 50};
  const Answer alone = train(c);
  c.cut = cut.cut;
  c.workers = workers;
  c.shares = cut.shares;
  const Answer together = train(c);
  ASSERT_EQ(alone.losses.size(), together.losses.size());
  for (size_t step = 0; step < alone.losses.size(); ++step)
    EXPECT_NEAR(together.losses[step], alone.losses[step], 1e-4 * alone.losses[step]) << step;
  expect_counted_as_predicted(together);
  expect_memory_as_predicted(together);
}

INSTANTIATE_TEST_SUITE_P(WorkersAndCuts, CutsAgree,
                         testing::Combine(testing::Values(2, 3, 4, 5), testing::Range(0, 4)));

}  // namespace
}  // namespace kerf::schedmp
