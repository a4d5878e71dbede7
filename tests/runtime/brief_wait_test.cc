// When a scheduler waits awake, and when it sleeps at once.
#include "runtime/zmq/brief_wait.h"

#include <gtest/gtest.h>

#include <thread>

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

// Looks that it takes where nothing comes.
int looks_in_vain(BriefWait& wait, Deadline deadline) {
  int looks = 0;
  const auto never = [&] { return ++looks > 1'000'000; };
  EXPECT_FALSE(wait.awake(never, deadline));
  return looks;
}

// As where others are at work all the time.
void get_at_once(BriefWait& wait, int times) {
  for (int i = 0; i < times; ++i) {
    EXPECT_FALSE(wait.awake([] { return false; }, Clock::now()));
    wait.slept();
  }
}

// Within the time for which it waits awake.
void get_soon(BriefWait& wait, int times) {
  for (int i = 0; i < times; ++i) {
    const auto begin = Clock::now();
    EXPECT_FALSE(wait.awake([] { return false; }, begin));
    while (Clock::now() - begin < 30us) continue;
    wait.slept();
  }
}

void get_late(BriefWait& wait, int times) {
  for (int i = 0; i < times; ++i) {
    EXPECT_FALSE(wait.awake([] { return false; }, Clock::now()));
    std::this_thread::sleep_for(2ms);
    wait.slept();
  }
}

TEST(BriefWait, SleepsUntilItKnowsBetter) {
  BriefWait wait;
  EXPECT_EQ(looks_in_vain(wait, after(1s)), 0);
}

TEST(BriefWait, IsAwakeForAMomentWhereWhatIsAwaitedComesSoon) {
  BriefWait wait;
  get_soon(wait, 20);
  const auto begin = Clock::now();
  EXPECT_GT(looks_in_vain(wait, after(10s)), 0);
  EXPECT_GE(Clock::now() - begin, 100us);
  EXPECT_LT(Clock::now() - begin, 5s);  // though others may run for long
}

TEST(BriefWait, SleepsWhereOthersAreAtWorkAllTheTime) {
  BriefWait wait;
  get_soon(wait, 20);
  get_at_once(wait, 20);
  EXPECT_EQ(looks_in_vain(wait, after(1s)), 0);
}

TEST(BriefWait, TakesWhatComesMeanwhile) {
  BriefWait wait;
  get_soon(wait, 20);
  int looks = 0;
  EXPECT_TRUE(wait.awake([&] { return ++looks == 2; }, after(10s)));
  EXPECT_EQ(looks, 2);
}

TEST(BriefWait, HeedsItsDeadline) {
  BriefWait wait;
  get_soon(wait, 20);
  EXPECT_EQ(looks_in_vain(wait, Clock::now() - 1ms), 1);
}

TEST(BriefWait, SleepsAtOnceAgainWhereItComesLate) {
  BriefWait wait;
  get_soon(wait, 20);
  get_late(wait, 20);
  EXPECT_EQ(looks_in_vain(wait, after(1s)), 0);
}

TEST(BriefWait, OneLateOneIsNoRule) {
  BriefWait wait;
  get_soon(wait, 20);
  get_late(wait, 1);
  get_soon(wait, 6);
  EXPECT_GT(looks_in_vain(wait, after(1s)), 0);
}

}  // namespace
}  // namespace kerf::runtime
