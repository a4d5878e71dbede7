#include "apps/main/interrupts.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

namespace kerf::apps {
namespace {

TEST(Interrupts, EndARunThatHasNothingToFinishAtOnce) {
  const Interrupts interrupts;
  ::raise(SIGTERM);
  EXPECT_TRUE(interrupts.request()->raised());
}

TEST(Interrupts, AskWhoHasAndEndHimWhenTheGraceIsOver) {
  const Interrupts interrupts;
  interrupts.request()->heed(true);
  ::raise(SIGINT);
  EXPECT_TRUE(interrupts.request()->asked());
  EXPECT_FALSE(interrupts.request()->raised());
  EXPECT_GT(::alarm(0), 0U) << "nothing will end it";
  ::raise(SIGALRM);
  EXPECT_TRUE(interrupts.request()->raised());
}

TEST(Interrupts, TakeTwoAtOnceForOneAndEndTheProcessAtALaterSecond) {
  const auto interrupted = [](std::chrono::milliseconds between) {
    const Interrupts interrupts;
    interrupts.request()->heed(true);
    ::raise(SIGTERM);
    std::this_thread::sleep_for(between);
    ::raise(SIGTERM);
    ::_exit(0);
  };
  EXPECT_EXIT(interrupted({}), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(interrupted(2 * kOneSignal), testing::ExitedWithCode(130), "interrupted twice");
}

TEST(Interrupts, LeaveNoAlarmBehind) {
  {
    const Interrupts interrupts;
    interrupts.request()->heed(true);
    ::raise(SIGTERM);
  }
  EXPECT_EQ(::alarm(0), 0U);
}

}  // namespace
}  // namespace kerf::apps
