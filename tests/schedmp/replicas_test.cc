// Stages with replicas: their text, their order, and the schedules that go both ways, against their
// papers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/error.h"
#include "schedmp/kept.h"
#include "schedmp/schedules.h"
#include "schedmp/staircase.h"
#include "schedmp/torch_csv.h"
#include "schedmp/verify.h"
#include "tests/schedmp/named_schedules.h"

namespace kerf::schedmp {
namespace {

using partitioner::chain_of_stages;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tests::made;

// One stage on two workers, a micro-batch each.
const std::string kHeader =
    "kerf-schedule 1\nname x\nworkers 2\nmicro-batches 2\nstage 0 on 0 and 1\n";

Schedule two_replicas(const std::string& body) { return parse_schedule(kHeader + body, "s.txt"); }

std::string complaint_of_replicas(const std::string& body) {
  return tests::complaint(kHeader + body);
}

TEST(Replicas, HaveGroupsAndMicroBatchesInTheText) {
  const Schedule schedule = two_replicas(
      "replica 1: 1\nrow 0: 0F0 0B0 0REDUCE_GRAD 0U\nrow 1: 0F1 0B1 0REDUCE_GRAD 0U\n");
  EXPECT_EQ(schedule.replicas, 2);
  EXPECT_EQ(schedule.stages(), 1);
  EXPECT_THAT(schedule.groups, ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(schedule.replica_of, ElementsAre(0, 1));
  EXPECT_EQ(schedule.group(0, 1), 1u);
  EXPECT_THAT(check_order(schedule), IsEmpty());
  EXPECT_EQ(parse_schedule(write_schedule(schedule), "s.txt"), schedule);
}

TEST(Replicas, OfTheTextAreComplete) {
  const std::string rows = "row 0: 0F0\nrow 1: 0F1\n";
  EXPECT_THAT(complaint_of_replicas(rows), HasSubstr("'replica 1: MICRO-BATCHES' is missing"));
  EXPECT_THAT(complaint_of_replicas("replica 2: 1\n" + rows), HasSubstr("from 1 to 1"));
  EXPECT_THAT(complaint_of_replicas("replica 1: 1 1\n" + rows),
              HasSubstr("micro-batch 1 is replica 1's"));
  EXPECT_THAT(complaint_of_replicas("replica 1: 1\nreplica 1: 0\n" + rows),
              HasSubstr("s.txt:7:9: "));
  EXPECT_THAT(complaint_of_replicas("replica 1: 2\n" + rows), HasSubstr("from 0 to 1"));
  EXPECT_THAT(complaint_of_replicas("replica 1: 1\n" + rows + "stage 1 on 0 and 1\n"),
              HasSubstr("stages come before"));
  EXPECT_THAT(complaint_of_replicas("stage 1 on 0\n" + rows),
              HasSubstr("stage 0 has 2 replica(s)"));
  EXPECT_THAT(complaint_of_replicas(rows + "replica 1: 1\n"),
              HasSubstr("replicas come before rows"));
}

TEST(Replicas, TakeTheirOwnMicroBatchesAlone) {
  const auto problems = [](const std::string& first, const std::string& second) {
    return check_order(two_replicas("replica 1: 1\nrow 0: " + first + "\nrow 1: " + second + "\n"));
  };
  EXPECT_THAT(problems("0F0 0B0 0REDUCE_GRAD 0U", "0F0 0B0 0F1 0B1 0REDUCE_GRAD 0U"),
              Contains(HasSubstr("worker 1: 0F0: the micro-batch goes through replica 0")));
  EXPECT_THAT(problems("0F0 0B0 0REDUCE_GRAD 0U", "0REDUCE_GRAD 0U"),
              Contains(HasSubstr("worker 1: 0F1 is missing")));
  EXPECT_THAT(problems("0F0 0B0 0REDUCE_GRAD 0U", "0F1 0B1"),
              ElementsAre(HasSubstr("0U is missing")));
  EXPECT_THAT(check_order(parse_schedule("kerf-schedule 1\nname x\nworkers 2\nmicro-batches 2\n"
                                         "stage 0 on 0 and 0\nreplica 1: 1\n"
                                         "row 0: 0F0 0B0 0F1 0B1 0REDUCE_GRAD 0U\nrow 1:\n",
                                         "s.txt")),
              Contains(HasSubstr("worker 0 is in two replicas of stage 0")));
}

// What one replica sends nobody of the other takes up.
TEST(Replicas, SendToThemselves) {
  const Schedule schedule = parse_schedule(
      "kerf-schedule 1\nname x\nworkers 4\nmicro-batches 2\nstage 0 on 0 and 3\nstage 1 on 1 and "
      "2\nreplica 1: 0\nrow 0: 0F1 0B1 0REDUCE_GRAD 0U\nrow 1: 1F1 1B1 1REDUCE_GRAD 1U\n"
      "row 2: 1F0 1B0 1REDUCE_GRAD 1U\nrow 3: 0F0 0B0 0REDUCE_GRAD 0U\n",
      "s.txt");
  EXPECT_THAT(check_order(schedule), IsEmpty());
  const Unfolded unfolded = unfold(schedule, chain_of_stages(2), {}, {1});
  EXPECT_THAT(unfolded.stuck, IsEmpty());
  for (const size_t worker : {1u, 2u}) EXPECT_EQ(unfolded.rows[worker][0].begin, 1);
}

TEST(Replicas, SumTheirGradientsBeforeOneUpdate) {
  const auto problems = [](const std::string& end) {
    return check_order(
        two_replicas("replica 1: 1\nrow 0: 0F0 0B0 " + end + "\nrow 1: 0F1 0B1 0REDUCE_GRAD 0U\n"));
  };
  EXPECT_THAT(problems("0REDUCE_GRAD 0U"), IsEmpty());
  EXPECT_THAT(problems("0U"), ElementsAre(HasSubstr("0U: needs a REDUCE_GRAD before it")));
  EXPECT_THAT(problems("0REDUCE_GRAD0 0U0"), Contains(HasSubstr("0U0: stages with replicas")));
}

// The update of each waits for gradients that the other makes behind its own update.
TEST(Replicas, WaitForEachOthersGradients) {
  const auto stuck = [](const std::string& first, const std::string& second) {
    const Schedule schedule = parse_schedule(
        "kerf-schedule 1\nname x\nworkers 2\nmicro-batches 2\nstage 0 on 0 and 1\nstage 1 on 0 "
        "and 1\nreplica 1: 1\nrow 0: " +
            first + "\nrow 1: " + second + "\n",
        "s.txt");
    EXPECT_THAT(check_order(schedule), IsEmpty());
    return unfold(schedule, chain_of_stages(2)).stuck;
  };
  EXPECT_THAT(stuck("0F0 1F0 1B0 0B0 0REDUCE_GRAD 0U 1REDUCE_GRAD 1U",
                    "0F1 1F1 1B1 1REDUCE_GRAD 1U 0B1 0REDUCE_GRAD 0U"),
              Contains(HasSubstr("0U: waits for ever for the gradients of replica 1")));
  EXPECT_THAT(stuck("0F0 1F0 1B0 0B0 0REDUCE_GRAD 1REDUCE_GRAD 0U 1U",
                    "0F1 1F1 1B1 1REDUCE_GRAD 1U 0B1 0REDUCE_GRAD 0U"),
              IsEmpty());
}

// A short text can ask for thousands of replicas of a million micro-batches.
TEST(Replicas, AreAsManyAsThereCanBe) {
  std::string text = "kerf-schedule 1\nname x\nworkers 1\nmicro-batches 1048576\nstage 0 on 0";
  for (int i = 0; i < 2000; ++i) text += " and 0";
  EXPECT_THAT([&] { parse_schedule(text + "\nrow 0: 0F0\n", "s.txt"); },
              testing::ThrowsMessage<Error>(HasSubstr("s.txt:5:12012: 2001 replicas for 1048576")));
}

TEST(Replicas, AreNothingForPyTorch) {
  const Schedule schedule = made("chimera", 2, 2);
  EXPECT_THAT([&] { torch_csv_of(schedule); },
              testing::ThrowsMessage<Error>(HasSubstr("cannot say the replicas")));
  EXPECT_EQ(why_it_cannot_run(schedule), std::nullopt);
}

// ---- Chimera

TEST(Chimera, LetsTwoPipelinesFillEachOther) {
  EXPECT_EQ(draw_staircase(made("chimera", 4, 4), chain_of_stages(4), {{}, 0, {1, 0.5, 0.5}}),
            "worker 0  0F0 0F1     3F2 3B2 3F3 3B3 0B0     0B1 3REDUCE_GRAD 0REDUCE_GRAD 3U 0U\n"
            "worker 1      1F0 2F2 1F1 2F3 2B2 1B0 2B3 1B1 2REDUCE_GRAD 1REDUCE_GRAD 2U 1U\n"
            "worker 2      1F2 2F0 1F3 2F1 2B0 1B2 2B1 1B3 2REDUCE_GRAD 1REDUCE_GRAD 2U 1U\n"
            "worker 3  0F2 0F3     3F0 3B0 3F1 3B1 0B2     0B3 3REDUCE_GRAD 0REDUCE_GRAD 3U 0U\n");
}

// (p - 2) / (2m + p - 2), for units of p micro-batches, where F takes as long as B.
TEST(Chimera, IsIdleAsItsPaperSays) {
  for (int p = 2; p <= 12; p += 2)
    for (const int m : {p, 2 * p, 5 * p}) {
      const Bubble idle = bubble(made("chimera", p, m), chain_of_stages(p), {{}, 0, {1, 0.5, 0.5}});
      EXPECT_NEAR(idle.step, (p - 2.0) / (2 * m + p - 2), 1e-12) << p << " " << m;
    }
}

// From p / 2 + 1 micro-batches on the ends to p in the middle.
TEST(Chimera, KeepsAsManyAsItsPaperSays) {
  for (int p = 2; p <= 12; p += 2) {
    const std::vector<int> peaks = peak_activations(made("chimera", p, p));
    EXPECT_EQ(peaks.front(), p / 2 + 1) << p;
    EXPECT_EQ(*std::max_element(peaks.begin(), peaks.end()), p) << p;
    EXPECT_EQ(peaks.front(), peaks.back());
  }
}

// ---- DualPipe

// As DualPipeV's of half the workers, twice: each worker's two stages are its there and back.
TEST(DualPipe, IsTwoDualPipeVs) {
  for (int p = 2; p <= 8; p += 2)
    for (const int m : {2 * p, 2 * p + 2, 5 * p}) {
      const Schedule both = made("dualpipe", p, m);
      const Schedule half = made("dualpipe-v", p / 2, m / 2);
      const double expected = bubble(half, chain_of_stages(p)).makespan;
      EXPECT_NEAR(bubble(both, chain_of_stages(p)).makespan, expected, 1e-9) << p << " " << m;
      EXPECT_EQ(peak_activations(both)[0], p + 1);
    }
}

// The repository's own picture (8 workers, 20 micro-batches): what the first and the last do first.
TEST(DualPipe, BeginsAtBothEnds) {
  const Schedule schedule = made("dualpipe", 8, 20);
  const auto begin = [&](size_t worker, size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) text += to_string(schedule.rows[worker][i]) + " ";
    return text;
  };
  EXPECT_EQ(begin(0, 12), "0F0 0F1 0F2 0F3 0F4 0F5 0F6 7F10 7I10 7W10 7F11 7I11 ");
  EXPECT_EQ(begin(7, 8), "0F10 0F11 0F12 0F13 0F14 0F15 0F16 7F0 ");
  EXPECT_EQ(begin(3, 9), "3F0 4F10 3F1 4F11 3F2 4F12 3F3 4F13 3F4 ");
}

TEST(BothWays, NeedAnEvenNumberOfStages) {
  for (const char* name : {"chimera", "dualpipe"}) {
    EXPECT_EQ(make_schedule(name, chain_of({{0}, {1}}), 4), made(name, 2, 4));
    EXPECT_THAT([&] { made(name, 3, 6); },
                testing::ThrowsMessage<Error>(testing::AllOf(
                    HasSubstr("needs an even number of stages, not 3"), HasSubstr("use 2 or 4"))));
    EXPECT_THAT(
        [&] {
          make_schedule(name, chain_of({{0}, {1}, {1}, {0}, {0}, {1}}, 3), 4);
        },
        testing::ThrowsMessage<Error>(HasSubstr("has 2 replicas of each stage, and there are 3")));
    EXPECT_THAT(
        [&] {
          make_schedule(name, chain_of({{0}, {1}, {0}, {1}}, 2), 4);
        },
        testing::ThrowsMessage<Error>(
            HasSubstr("stage 1 of its second replica where stage 0 of the first is")));
  }
}

}  // namespace
}  // namespace kerf::schedmp
