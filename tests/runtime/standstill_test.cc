// What a process makes of time in which it did not run.
#include "runtime/standstill.h"

#include <gtest/gtest.h>

#include <thread>

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

TEST(Standstill, LooksThatComeInTimeSeeNone) {
  auto now = Clock::now();
  Standstill still(200ms, now);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(still.look(now += 200ms), 0ms);
  EXPECT_EQ(still.own_time(now), now);
}

TEST(Standstill, ABusyHostIsNone) {
  const auto now = Clock::now();
  Standstill still(200ms, now);
  EXPECT_EQ(still.look(now + 690ms), 0ms);
}

TEST(Standstill, WhatExceedsTheUsualIsTakenOffOnce) {
  const auto now = Clock::now();
  Standstill still(200ms, now);
  EXPECT_EQ(still.look(now + 1h + 200ms), 1h);
  EXPECT_EQ(still.look(now + 1h + 400ms), 0ms);
  EXPECT_EQ(still.own_time(now + 1h + 400ms), now + 400ms);
  EXPECT_EQ(still.look(now + 2h + 600ms), 1h);
  EXPECT_EQ(still.own_time(now + 2h + 600ms), now + 600ms);
}

TEST(Standstill, PostponesDeadlinesButNotForEver) {
  const auto now = Clock::now();
  EXPECT_EQ(postponed(now, 5s), now + 5s);
  EXPECT_EQ(postponed(Deadline::max(), 5s), Deadline::max());
  EXPECT_EQ(postponed(Deadline::max() - 1s, 5s), Deadline::max());
}

TEST(WaitRunning, EndsWhenItIsDoneOrTheDeadlinePassed) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::unique_lock lock(mutex);
  const auto begin = Clock::now();
  EXPECT_FALSE(wait_running(changed, lock, after(600ms), [&] { return done; }));
  EXPECT_GE(Clock::now() - begin, 600ms);
  const std::jthread other([&] {
    const std::lock_guard mine(mutex);
    done = true;
    changed.notify_one();
  });
  EXPECT_TRUE(wait_running(changed, lock, Deadline::max(), [&] { return done; }));
  EXPECT_TRUE(wait_running(changed, lock, Deadline{}, [&] { return done; }));
  lock.unlock();
}

}  // namespace
}  // namespace kerf::runtime
