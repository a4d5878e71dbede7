#include "schedmp/task_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TaskLog log_of(bool repeats, int64_t tasks) {
  TaskLog log(repeats);
  for (int64_t i = 0; i < tasks; ++i) log.add({i, 0}, kerf::format("task {}", i));
  return log;
}

TEST(TaskLog, IsSentAndAnsweredInOrder) {
  for (const bool repeats : {false, true}) {
    TaskLog log = log_of(repeats, 2);
    EXPECT_THAT(log.take(), ElementsAre("task 0", "task 1"));
    EXPECT_FALSE(log.has_more());
    EXPECT_THAT(log.take(), IsEmpty());
    EXPECT_EQ(log.answer("a").owed->round, 0);
    EXPECT_TRUE(log.owed());
    const TaskLog::Answer last = log.answer("b");
    EXPECT_EQ(last.owed->round, 1);
    EXPECT_EQ(last.before, std::nullopt);
    EXPECT_FALSE(log.owed());
    EXPECT_EQ(tests::error_of([&] { log.answer("c"); })->code(), ErrorCode::kProtocol);
  }
}

TEST(TaskLog, IsRepeatedFromItsBeginningWithWhatWasAnswered) {
  TaskLog log = log_of(true, 3);
  log.take();
  log.answer("first");
  log.repeat();
  EXPECT_THAT(log.take(), ElementsAre("task 0", "task 1", "task 2"));
  EXPECT_EQ(log.answer("again").before, "first");
  EXPECT_EQ(log.answer("second").before, std::nullopt);
  log.repeat();  // whoever dies twice
  log.take();
  EXPECT_EQ(log.answer("and again").before, "again");
}

TEST(TaskLog, TellsWhatOfItIsThrownAwayAtALoss) {
  TaskLog log = log_of(true, 4);
  EXPECT_EQ(log.sent_tasks().unanswered, 0) << "nothing was sent";
  log.add_barrier("keep", 4);
  log.take();
  log.answer("a");
  EXPECT_EQ(log.sent_tasks().answered, 1);
  EXPECT_EQ(log.sent_tasks().unanswered, 3);
  for (const char* result : {"b", "c", "d"}) log.answer(result);
  log.open_barrier();
  log.take();
  EXPECT_EQ(log.sent_tasks().unanswered, 0) << "a barrier is no task";
  log.answer("kept");  // while others have yet to
  EXPECT_EQ(log.sent_tasks().answered, 4);
  EXPECT_EQ(log.sent_tasks().unanswered, 0);
}

TEST(TaskLog, WhatLiesBehindABarrierWaitsUntilItIsPassed) {
  TaskLog log = log_of(true, 1);
  log.add_barrier("keep", 7);
  log.add({7, 0}, "behind");
  EXPECT_THAT(log.take(), ElementsAre("task 0"));
  EXPECT_FALSE(log.has_more());
  EXPECT_FALSE(log.at_barrier());
  log.answer("a");
  EXPECT_TRUE(log.at_barrier());
  EXPECT_THAT(log.take(), IsEmpty());
  log.open_barrier();
  EXPECT_THAT(log.take(), ElementsAre("keep"));
  EXPECT_EQ(log.answer("kept").owed, std::nullopt);
  EXPECT_THAT(log.take(), IsEmpty());
  log.pass_barrier();
  EXPECT_THAT(log.take(), ElementsAre("behind"));
  log.repeat();
  EXPECT_THAT(log.take(), ElementsAre("behind"));
}

TEST(TaskLog, ABarrierMayComeBeforeTasksThatAreThereAndWereNotSent) {
  TaskLog log = log_of(true, 1);
  log.take();
  log.add({7, 0}, "seven");
  log.add({8, 0}, "eight");
  log.add({8, 1}, "and another");
  log.add_barrier("keep", 8);
  EXPECT_THAT(log.take(), ElementsAre("seven"));
  log.answer("a");
  log.answer("b");
  log.open_barrier();
  EXPECT_THAT(log.take(), ElementsAre("keep"));
  EXPECT_EQ(log.answer("kept").owed, std::nullopt);
  log.pass_barrier();
  EXPECT_THAT(log.take(), ElementsAre("eight", "and another"));
  EXPECT_EQ(tests::error_of([&] { log.add_barrier("late", 8); })->code(), ErrorCode::kInternal);
}

// A task before the barrier, which is answered so, and one behind it.
TaskLog log_with_barrier(const std::string& answer) {
  TaskLog log = log_of(true, 1);
  log.add_barrier("keep", 7);
  log.add({7, 0}, "behind");
  log.take();
  log.answer("a");
  log.open_barrier();
  log.take();
  log.answer(answer);
  return log;
}

TEST(TaskLog, ABarrierInVainForgetsNothing) {
  TaskLog log = log_with_barrier("no room");
  log.pass_barrier(true);
  EXPECT_THAT(log.take(), ElementsAre("behind"));
  log.repeat();
  EXPECT_THAT(log.take(), ElementsAre("task 0", "behind"));
}

TEST(TaskLog, ABarrierThatWasNotPassedIsNotRepeated) {
  TaskLog log = log_with_barrier("kept here, but not elsewhere");
  log.repeat();
  EXPECT_THAT(log.take(), ElementsAre("task 0", "behind"));
}

TEST(TaskLog, KeepsNoMoreThanItSays) {
  TaskLog log(true);
  for (int64_t i = 0; i < 100; ++i) log.add({i, 0}, std::string(1000, 'x'));
  EXPECT_GE(log.bytes(), 100'000u);
  log.take();
  for (int i = 0; i < 100; ++i) log.answer(std::string(500, 'y'));
  EXPECT_GE(log.bytes(), 150'000u);
  const size_t before = log.bytes();
  log.repeat();
  log.take();
  for (int i = 0; i < 100; ++i) log.answer(std::string(500, 'z'));
  EXPECT_EQ(log.bytes(), before);
  log.forget();
  EXPECT_EQ(log.bytes(), 0u);
}

TEST(TaskLog, ThatGaveUpKeepsNothing) {
  TaskLog log = log_of(true, 4);
  log.take();
  log.answer("a");
  log.add({9, 0}, "last");
  log.give_up();
  EXPECT_EQ(log.bytes(), 0u);
  for (const int64_t round : {1, 2, 3}) EXPECT_EQ(log.answer("b").owed->round, round);
  EXPECT_THAT(log.take(), ElementsAre("last"));
  EXPECT_EQ(log.answer("c").owed->round, 9);
  EXPECT_FALSE(log.owed());
}

}  // namespace
}  // namespace kerf::schedmp
