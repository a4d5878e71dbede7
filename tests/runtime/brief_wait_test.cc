// When a scheduler waits awake, and when it sleeps at once.
#include "runtime/zmq/brief_wait.h"

#include <gtest/gtest.h>

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

// Time that passes as the test says.
struct ToldTime {
  static inline Clock::time_point at{};
  static Clock::time_point now() { return at; }
};
using Wait = BriefWait<ToldTime>;

// Looks that it takes where nothing comes, of 3 us each.
int looks_in_vain(Wait& wait, Clock::duration at_most) {
  int looks = 0;
  const auto never = [&] {
    ++looks;
    ToldTime::at += 3us;
    return false;
  };
  EXPECT_FALSE(wait.awake(never, ToldTime::at + at_most));
  return looks;
}

void get(Wait& wait, Clock::duration within, int times) {
  for (int i = 0; i < times; ++i) {
    EXPECT_FALSE(wait.awake([] { return false; }, ToldTime::at));
    ToldTime::at += within;
    wait.slept();
  }
}

TEST(BriefWait, SleepsUntilItKnowsBetter) {
  Wait wait;
  EXPECT_EQ(looks_in_vain(wait, 1s), 0);
}

TEST(BriefWait, IsAwakeForAMomentWhereWhatIsAwaitedComesSoon) {
  Wait wait;
  get(wait, 30us, 20);
  EXPECT_EQ(looks_in_vain(wait, 1s), 200 / 3 + 1);
}

TEST(BriefWait, SleepsWhereOthersAreAtWorkAllTheTime) {
  Wait wait;
  get(wait, 30us, 20);
  get(wait, 4us, 20);
  EXPECT_EQ(looks_in_vain(wait, 1s), 0);
}

TEST(BriefWait, TakesWhatComesMeanwhile) {
  Wait wait;
  get(wait, 30us, 20);
  int looks = 0;
  EXPECT_TRUE(wait.awake([&] { return ++looks == 2; }, ToldTime::at + 10s));
  EXPECT_EQ(looks, 2);
}

TEST(BriefWait, HeedsItsDeadline) {
  Wait wait;
  get(wait, 30us, 20);
  EXPECT_EQ(looks_in_vain(wait, 20us), 7);
  EXPECT_EQ(looks_in_vain(wait, -1ms), 1);
}

TEST(BriefWait, SleepsAtOnceAgainWhereItComesLate) {
  Wait wait;
  get(wait, 30us, 20);
  get(wait, 2ms, 20);
  EXPECT_EQ(looks_in_vain(wait, 1s), 0);
}

TEST(BriefWait, OneLateOneIsNoRule) {
  Wait wait;
  get(wait, 30us, 20);
  get(wait, 2ms, 1);
  get(wait, 30us, 6);
  EXPECT_GT(looks_in_vain(wait, 1s), 0);
}

}  // namespace
}  // namespace kerf::runtime
