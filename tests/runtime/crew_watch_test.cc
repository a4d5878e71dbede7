// Who is lost, from what is known of each worker at one moment.
#include "runtime/crew_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class CrewWatch : public testing::Test {
 protected:
  // A worker at work whose last progress was `ago`, and whose last report has just come.
  Member& add(Clock::duration ago, const std::string& doing, const std::string& awaits = "") {
    Member member;
    member.state = Member::State::kReady;
    member.info.worker = static_cast<int>(members_.size());
    member.info.activity.doing = doing;
    member.info.activity.awaits = awaits;
    member.heard = member.reported = now_;
    member.progressed = now_ - ago;
    members_.push_back(std::move(member));
    return members_.back();
  }
  std::optional<Loss> loss() const { return find_loss(members_, options_, now_); }

  const Clock::time_point now_ = Clock::now();
  CrewOptions options_;  // 30 s without progress
  std::vector<Member> members_;
};

TEST_F(CrewWatch, WhoWaitsIsNotLostWhileAnotherWorks) {
  add(100s, "step 0: 7F0", "an activation");
  add(2s, "step 0: 1F3");
  EXPECT_FALSE(loss());
}

TEST_F(CrewWatch, WhoWaitsIsNotLostWhileAnotherHasJustFinished) {
  add(100s, "step 0: 7F0", "an activation");
  add(2s, "");
  EXPECT_FALSE(loss());
}

TEST_F(CrewWatch, WhoWaitsIsNotLostBeforeWhomItWaitsFor) {
  add(30s, "step 4: 0B2", "a gradient");
  add(29s, "step 4: 1F3");  // hangs, but nobody can know yet
  EXPECT_FALSE(loss());
}

TEST_F(CrewWatch, WhoComputesForTooLongIsLost) {
  add(100s, "step 4: 0B2", "a gradient");
  add(30s, "step 4: 1F3");
  ASSERT_TRUE(loss());
  EXPECT_EQ(loss()->worker, 1);
  EXPECT_EQ(loss()->how, "no progress for 30.0 s");
}

TEST_F(CrewWatch, ALimitThatTheCallerRaisesHolds) {
  add(299s, "step 4: 1F3");
  options_.no_progress = 300s;
  EXPECT_FALSE(loss());
}

TEST_F(CrewWatch, WhenAllThatAreAtWorkWaitItIsADeadlock) {
  add(31s, "step 4: 0B2", "a gradient");
  add(32s, "step 4: 1F3", "an activation");
  add(33s, "");
  ASSERT_TRUE(loss());
  EXPECT_EQ(loss()->worker, 1) << "it has waited longest";
  EXPECT_THAT(loss()->how, HasSubstr("everybody who is at work waits"));
}

TEST_F(CrewWatch, WhoIsIdleIsNeverLost) {
  add(1000s, "");
  EXPECT_FALSE(loss());
}

TEST_F(CrewWatch, ADeviceThatDoesNotOpenIsNoticed) {
  add(31s, "opening device").state = Member::State::kJoined;
  ASSERT_TRUE(loss());
  EXPECT_EQ(loss()->worker, 0);
}

}  // namespace
}  // namespace kerf::runtime
