// Who is lost, from what is known of each worker at one moment, with the limits of every run.
#include "runtime/failure_detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/control_thread.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class CrewWatch : public testing::Test {
 protected:
  // A worker that owes a result, whose last progress was `ago` and whose last report has just come.
  Member& add(Clock::duration ago, const std::string& doing, const std::string& awaits = "") {
    Member member;
    member.state = Member::State::kReady;
    member.info.worker = static_cast<int>(members_.size());
    member.info.activity.doing = doing;
    member.info.activity.awaits = awaits;
    member.heard = member.reported = now_;
    member.progressed = now_ - ago;
    member.task_since = now_ - ago;
    member.info.outstanding = 1;
    members_.push_back(std::move(member));
    return members_.back();
  }
  // One that has answered everything it was asked.
  Member& add_idle(Clock::duration ago) {
    Member& member = add(ago, "");
    member.info.outstanding = 0;
    return member;
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
  add_idle(2s);
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
  add_idle(33s);
  ASSERT_TRUE(loss());
  EXPECT_EQ(loss()->worker, 1) << "it has waited longest";
  EXPECT_THAT(loss()->how, HasSubstr("everybody who is at work waits"));
}

// Three seconds, where nobody else can wake them.
TEST_F(CrewWatch, WhoWaitForEachOtherAloneAreDeadlockedSoon) {
  add(2900ms, "step 4: 0B2", "a gradient").info.activity.awaited = 1;
  add(4s, "step 4: 1F3", "an activation").info.activity.awaited = 0;
  EXPECT_FALSE(loss()) << "something moved since";
  members_[0].progressed = now_ - 3s;
  ASSERT_TRUE(loss());
  EXPECT_EQ(loss()->worker, 1);
  EXPECT_EQ(loss()->how, "no progress for 4.0 s: everybody who is at work waits");
  EXPECT_THAT(loss_error(members_, *loss(), now_).message(),
              HasSubstr("for an activation from worker 0, while doing step 4: 1F3"));
  members_[1].info.activity.device = "step 4: 1F3";
  EXPECT_FALSE(loss()) << "its device may be at work";
  members_[1].info.activity.device.clear();
  options_.deadlock = 9s;
  EXPECT_FALSE(loss());
}

TEST_F(CrewWatch, WhoWaitsForAnIdleWorkerIsNotDeadlockedSoon) {
  add(4s, "step 4: 0B2", "a gradient").info.activity.awaited = 1;
  add_idle(4s);
  EXPECT_FALSE(loss()) << "it may yet get work";
}

TEST_F(CrewWatch, WhoIsIdleIsNeverLost) {
  add_idle(1000s);
  EXPECT_FALSE(loss());
}

TEST_F(CrewWatch, WhoOwesAResultIsLostWhateverItSaysThatItDoes) {
  add(30s, "");
  ASSERT_TRUE(loss());
  EXPECT_EQ(loss()->how, "no progress for 30.0 s");
  EXPECT_THAT(loss_error(members_, *loss(), now_).message(),
              HasSubstr("says that it is idle but owes 1 result"));
}

TEST_F(CrewWatch, WhoSaysThatItWaitsForAnIdleWorkerIsLost) {
  add(31s, "step 0: 1F0", "an activation").info.activity.awaited = 1;
  add_idle(100s);
  ASSERT_TRUE(loss());
  EXPECT_EQ(loss()->worker, 0);
}

TEST_F(CrewWatch, WhoSaysForEverThatItMovesOnIsLostAfterADay) {
  Member& member = add(0s, "step 0: 1F0");
  member.task_since = now_ - 24h + 1s;
  EXPECT_FALSE(loss());
  member.task_since = now_ - 24h;
  ASSERT_TRUE(loss());
  EXPECT_EQ(loss()->how, "one task has taken 86400.0 s");
}

TEST_F(CrewWatch, ADeviceThatDoesNotOpenIsNoticed) {
  add_idle(31s).state = Member::State::kJoined;  // it owes its address
  ASSERT_TRUE(loss());
  EXPECT_EQ(loss()->worker, 0);
}

TEST_F(CrewWatch, WhoDoesNotGetReadyIsNoticed) {
  add_idle(31s).state = Member::State::kStarted;
  EXPECT_TRUE(loss());
  members_[0].state = Member::State::kAddressed;  // that is for us to go on with
  EXPECT_FALSE(loss());
}

// Three seconds: a limit that is longer by much makes this fail.
TEST_F(CrewWatch, WhoIsSilentForThreeSecondsIsLost) {
  add_idle(0s).heard = now_ - 2900ms;
  EXPECT_FALSE(loss());
  members_[0].heard = now_ - 3s;
  ASSERT_TRUE(loss());
  EXPECT_EQ(loss()->how, "silent for 3.0 s");
}

TEST_F(CrewWatch, ASchedulerThatIsSilentForThreeSecondsIsLost) {
  const WorkerOptions options;
  EXPECT_FALSE(judge_scheduler(options, true, now_ - 2900ms, now_));
  const auto lost = judge_scheduler(options, true, now_ - 3s, now_);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->code(), ErrorCode::kLost);
  EXPECT_THAT(lost->message(), HasSubstr("silent for 3.0 s"));
}

TEST_F(CrewWatch, ASchedulerThatNeverAnsweredIsGivenUpAfterAMinute) {
  const WorkerOptions options;
  EXPECT_FALSE(judge_scheduler(options, false, now_ - 59s, now_));
  const auto none = judge_scheduler(options, false, now_ - 60s, now_);
  ASSERT_TRUE(none);
  EXPECT_EQ(none->code(), ErrorCode::kTimeout);
}

TEST_F(CrewWatch, NobodyIsOlderForTheTimeThatTheSchedulerStoodStill) {
  add(29s, "step 4: 1F3");
  Member& broken = add_idle(0s);
  broken.heard = now_ - 2900ms;
  broken.broken_at = now_ - 300ms;
  EXPECT_FALSE(loss());
  forgive(members_, 1h);
  EXPECT_FALSE(find_loss(members_, options_, now_ + 1h));
  EXPECT_TRUE(find_loss(members_, options_, now_ + 1h + 1s)) << "but what was left of it counts";
}

// A moment is moved where there was one: who fails after a standstill fails then, not never.
TEST_F(CrewWatch, AStandstillMovesTheMomentOfAFailureOnlyWhereThereWasOne) {
  add_idle(0s).failed_at = now_ - 2s;
  add_idle(0s);
  forgive(members_, 1h);
  EXPECT_EQ(members_[0].failed_at, now_ - 2s + 1h);
  EXPECT_EQ(members_[1].failed_at, std::nullopt);
}

TEST_F(CrewWatch, OfSeveralLossesTheFirstIsTold) {
  add_idle(0s).heard = now_ - 3100ms;
  Member& ended = add_idle(0s);
  ended.process_end = "signal 9 (Killed)";
  ended.ended_at = now_ - 3500ms;
  ASSERT_TRUE(loss());
  EXPECT_EQ(loss()->worker, 1);
}

// The first, with what it did; and of others what became of theirs.
TEST_F(CrewWatch, OfSeveralLostDevicesEachIsTold) {
  for (const auto& [ago, where] : {std::pair(1s, "cuda:0"), {3s, "cuda:1"}}) {
    Member& member = add(5s, "step 4: 1F3");
    member.failure = Error(ErrorCode::kDeviceLost, "a kernel went astray", where);
    member.failed_at = now_ - ago;
  }
  ASSERT_TRUE(loss());
  EXPECT_THAT(loss_error(members_, *loss(), now_).message(),
              testing::MatchesRegex(
                  "worker 1 was lost: its device failed: cuda:1: a kernel went astray; last heard "
                  "of, it is doing step 4: 1F3 for .* s\n"
                  "  worker 0 lost its device: cuda:0: a kernel went astray"));
}

TEST_F(CrewWatch, OfSeveralFailuresTheFirstIsTold) {
  EXPECT_EQ(first_failed(members_), nullptr);
  for (const auto ago : {1s, 3s, 2s}) {
    Member& member = add_idle(0s);
    member.failure = Error(ErrorCode::kInternal, "it failed");
    member.failed_at = now_ - ago;
  }
  ASSERT_NE(first_failed(members_), nullptr);
  EXPECT_EQ(first_failed(members_)->info.worker, 1);
}

}  // namespace
}  // namespace kerf::runtime
