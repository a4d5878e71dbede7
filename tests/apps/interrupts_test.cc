#include "apps/main/interrupts.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

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
