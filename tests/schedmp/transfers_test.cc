// Sends and receives that a file of PyTorch names: proved and timed as they stand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedmp/check_transfers.h"
#include "schedmp/torch_csv.h"
#include "schedmp/unfold.h"

namespace kerf::schedmp {
namespace {

using partitioner::chain_of_stages;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Schedule written(const std::string& text) {
  const TorchCsv csv = parse_torch_csv(text, "x.csv");
  return with_transfers(csv, schedule_of(csv, "x", "x.csv"));
}
std::vector<std::string> problems(const std::string& text) {
  return check_transfers(written(text));
}
Unfolded played(const std::string& text, int messages, double transfer = 0) {
  const Schedule schedule = written(text);
  return unfold(schedule, chain_of_stages(schedule.stages()), {{}, transfer}, {messages});
}

const std::string kFirst = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n";
const std::string kSecond = "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";

// They have no names on their way.
TEST(Transfers, HaveOneOrderAtBothEnds) {
  EXPECT_THAT(problems("0F0,0F1,0SEND_F1,0SEND_F0\n1RECV_F0,1RECV_F1,1F0,1F1\n"),
              ElementsAre("1RECV_F0 would get what 0SEND_F1 sends: both ends have one order"));
}

TEST(Transfers, ThatAComputationNeedsAreEnough) {
  EXPECT_TRUE(has_transfers(parse_torch_csv(kFirst, "x.csv")));
  EXPECT_FALSE(has_transfers(parse_torch_csv("0F0,0B0,0REDUCE_GRAD\n", "x.csv")));
  EXPECT_THAT(problems(kFirst + kSecond), IsEmpty());
  EXPECT_THAT(played(kFirst + kSecond, Buffering::kUnbounded).stuck, IsEmpty());
}

TEST(Transfers, AreEachThereOnceAndInTheirOrder) {
  EXPECT_THAT(problems("0F0\n1RECV_F0,1F0\n"), ElementsAre("worker 0: 0SEND_F0 is missing"));
  EXPECT_THAT(problems("0F0,0SEND_F0\n1F0\n"), ElementsAre("worker 1: 1F0: comes before 1RECV_F0"));
  EXPECT_THAT(problems("0SEND_F0,0F0\n1RECV_F0,1F0\n"),
              ElementsAre("worker 0: 0SEND_F0: comes before its forward"));
  EXPECT_THAT(problems("0F0,0SEND_F0,0SEND_F0\n1RECV_F0,1F0\n"),
              ElementsAre("worker 0: 0SEND_F0: stands twice"));
  EXPECT_THAT(problems("0F0,0WAIT_SEND_F0,0SEND_F0\n1RECV_F0,1F0\n"),
              ElementsAre("worker 0: 0WAIT_SEND_F0: comes before what it awaits is sent"));
  EXPECT_THAT(problems("0F0,0SEND_F0\n1RECV_F0,1F0,1SEND_F0\n"),
              ElementsAre("worker 1: 1SEND_F0: no other worker is at the other end"));
  EXPECT_THAT(problems("0F0,0SEND_F0\n1RECV_F0,1F0,0SEND_F0\n"),
              ElementsAre("worker 1: 0SEND_F0: the stage is not this worker's"));
  EXPECT_THAT(problems("0F0,0SEND_F0,0SEND_F7,7SEND_F0\n1RECV_F0,1F0\n"),
              ElementsAre("worker 0: 0SEND_F7: there is no such micro-batch",
                          "worker 0: 7SEND_F0: there is no such stage"));
  EXPECT_THAT(problems("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1SEND_B0,1B0\n"),
              ElementsAre("worker 1: 1SEND_B0: comes before its input gradient"));
}

// What PyTorch's own simulator passes and two nodes hung at: each sends before it receives.
TEST(Transfers, ThatMeetMayWaitForEachOther) {
  const std::string text =
      "0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2RECV_F1,2F1\n"
      "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1\n";
  EXPECT_THAT(problems(text), IsEmpty());
  EXPECT_THAT(played(text, Buffering::kUnbounded).stuck, IsEmpty());
  EXPECT_THAT(played(text, 1).stuck, IsEmpty());
  EXPECT_THAT(played(text, Buffering::kRendezvous).stuck,
              testing::UnorderedElementsAre(
                  HasSubstr("worker 0: 0SEND_F1: waits for ever until stage 1 takes up"),
                  HasSubstr("worker 1: 1SEND_F0: waits for ever until stage 2 takes up")));
}

TEST(Transfers, AreAwaitedWhereTheFileSaysSo) {
  const std::string text = "0F0,0SEND_F0,0WAIT_SEND_F0,0F1,0SEND_F1\n1RECV_F0,1F0,1RECV_F1,1F1\n";
  const Unfolded unfolded = played(text, Buffering::kUnbounded, 5);
  EXPECT_EQ(unfolded.rows[0][2].begin, 6) << "it is there after a forward and its way";
  EXPECT_EQ(unfolded.rows[0][3].end, 7);
  const Unfolded computed = computed_of(written(text), unfolded);
  EXPECT_EQ(computed.rows[0].size(), 2u);
  EXPECT_EQ(computed.rows[0][1].end, 7);
  // Nobody receives it before the sender has waited for that.
  const std::string circle = "0F0,0SEND_F0,0WAIT_SEND_F0,0F1,0SEND_F1\n1RECV_F1,1F1,1RECV_F0,1F0\n";
  EXPECT_THAT(played(circle, Buffering::kUnbounded).stuck,
              Contains(HasSubstr("worker 0: 0WAIT_SEND_F0: waits for ever until stage 1")));
}

// When the sender comes to its third forward, its second being received where the receiver's row
// has that.
TEST(Transfers, TakePlaceWhereTheyStand) {
  const auto third = [](const std::string& second) {
    return played("0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2\n" + second + ",1RECV_F2,1F2\n",
                  Buffering::kRendezvous)
        .rows[0][4]
        .begin;
  };
  EXPECT_EQ(third("1RECV_F0,1RECV_F1,1F0,1F1"), 2);
  EXPECT_EQ(third("1RECV_F0,1F0,1RECV_F1,1F1"), 2);
  EXPECT_EQ(third("1RECV_F0,1F0,1B0,1RECV_F1,1F1"), 4);
}

TEST(Transfers, WithinAWorkerAreNone) {
  const std::string text =
      "0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0\n"
      "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0\n";
  EXPECT_THAT(problems(text), IsEmpty());
  EXPECT_THAT(played(text, Buffering::kRendezvous).stuck, IsEmpty());
}

}  // namespace
}  // namespace kerf::schedmp
