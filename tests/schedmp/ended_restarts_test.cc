// Which losses end a run, and with what cause; which do not, as each is of another round.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "tests/schedmp/restarting.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp {
namespace {

using namespace std::chrono_literals;
using runtime::TransportKind;
using testing::AllOf;
using testing::HasSubstr;

TEST(Restarts, WhatDiesOfTheSameTaskThreeTimesEndsTheRunWithTheFirstCause) {
  const RingOptions options{.workers = 2, .rounds = 10};
  const auto crew = crew_of(options.workers, TransportKind::kIpc);
  Named program("frail", options);
  std::vector<int64_t> begun_before;
  const auto error = tests::error_of([&] { run(program, *crew, restarting(&begun_before, 10s)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kLost);
  EXPECT_THAT(error->what(),
              AllOf(HasSubstr("signal 9 (Killed)"), HasSubstr("2 losses in the same round since")));
  // The first may come before results of the rounds before that task, or be met while all begin.
  EXPECT_THAT(begun_before.size(), AllOf(testing::Ge(2u), testing::Le(12u)));
}

// Kills its first worker whenever round 3 is repeated, four times.
class Unlucky : public Ring {
 public:
  Unlucky(const RingOptions& options, const runtime::Crew& crew,
          const std::vector<int64_t>& begun_before)
      : Ring(options,
             [&](int64_t round) {
               if (round == 30) kill_worker(crew, 1);
             }),
        crew_(crew),
        begun_before_(begun_before) {}
  void compare(int64_t round, const Result& first, const Result& again) override {
    Ring::compare(round, first, again);
    if (round != 3 || kills_ == 4 || std::ssize(begun_before_) == kills_) return;
    ++kills_;
    kill_worker(crew_, 0);
  }

 private:
  const runtime::Crew& crew_;
  const std::vector<int64_t>& begun_before_;
  int64_t kills_ = 0;
};

TEST(Restarts, LossesWhileRoundsAreRepeatedAreNotOfTheRoundThatWasNeverDone) {
  const RingOptions options{.workers = 2, .rounds = 40};
  const auto crew = crew_of(options.workers, TransportKind::kIpc);
  std::vector<int64_t> begun_before;
  Unlucky program(options, *crew, begun_before);
  const LoopReport report = run(program, *crew, restarting(&begun_before, 10s));
  crew->stop();
  EXPECT_EQ(program.place(), undisturbed(options));
  program.expect_once_a_round();
  EXPECT_EQ(report.restarts, 5);
}

TEST(Restarts, AWorkerWhoseDeviceFailedIsReplaced) {
  const tests::TemporaryFolder folder;
  ::setenv("KERF_TEST_ONCE", (folder / "once").c_str(), 1);
  const RingOptions options;
  const auto crew = crew_of(options.workers, TransportKind::kShm);
  Named program("deviceless", options);
  std::vector<std::string> lost;
  LoopOptions how = restarting();
  how.restarts.lost = [&](const Error& loss, const RoundAndSteps&) {
    lost.emplace_back(loss.what());
  };
  run(program, *crew, how);
  crew->stop();
  ::unsetenv("KERF_TEST_ONCE");
  EXPECT_EQ(program.place(), undisturbed(options));
  program.expect_once_a_round();
  EXPECT_THAT(lost, testing::ElementsAre(AllOf(
                        HasSubstr("worker 1"),
                        HasSubstr("was lost: its device failed: cuda:7: a kernel went astray"))));
}

TEST(Restarts, OfADeviceThatFailsInEachProcessTheFirstCauseEndsTheRun) {
  const RingOptions options{.workers = 2, .rounds = 10};
  const auto crew = crew_of(options.workers, TransportKind::kIpc);
  Named program("deviceless", options);
  const auto error = tests::error_of([&] { run(program, *crew, restarting(nullptr, 10s)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kLost);
  EXPECT_THAT(error->what(),
              AllOf(HasSubstr("a kernel went astray"), HasSubstr("2 losses in the same round")));
}

// Kills a worker of each crew that begins again, before it has registered.
LoopOptions killing_replacements(const runtime::Crew& crew, int times) {
  LoopOptions options = restarting();
  options.restarts.waiting = [&crew, times](int here, const std::string&) mutable {
    if (here == 0 && times-- > 0) kill_worker(crew, 1);
  };
  return options;
}

TEST(Restarts, WhoDiesBeforeItHasItsTasksDoesNotDieOfThem) {
  const RingOptions options{.workers = 2};
  const auto crew = crew_of(options.workers, TransportKind::kIpc);
  Ring program(options, [&](int64_t round) {
    if (round == 20) kill_worker(*crew, 0);
  });
  const LoopReport report = run(program, *crew, killing_replacements(*crew, 2));
  crew->stop();
  EXPECT_EQ(program.place(), undisturbed(options));
  EXPECT_EQ(report.restarts, 3);
}

TEST(Restarts, ThreeThatFailInARowEndTheRun) {
  const auto crew = crew_of(2, TransportKind::kIpc);
  Ring program({.workers = 2}, [&](int64_t round) {
    if (round == 20) kill_worker(*crew, 0);
  });
  const auto error = tests::error_of([&] { run(program, *crew, killing_replacements(*crew, 9)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kLost);
}

TEST(Restarts, AResultThatDiffersWhenItIsRepeatedEndsTheRun) {
  const RingOptions options{.workers = 2, .keeps_state = false};
  const auto crew = crew_of(options.workers, TransportKind::kIpc);
  Named program("fickle", options, [&](int64_t round) {
    if (round == 20) kill_worker(*crew, 0);
  });
  const auto error = tests::error_of([&] { run(program, *crew, restarting()); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("round 0 came to"));
}

class Unordered : public Named {
 public:
  using Named::Named;
  bool unordered() const override { return true; }
};

TEST(Restarts, AResultThatDiffersEndsTheRunWhereTheyAreFoldedInAsTheyComeToo) {
  const RingOptions options{.workers = 2, .keeps_state = false};
  for (const std::string& name : {std::string("ring"), std::string("fickle")}) {
    const auto crew = crew_of(options.workers, TransportKind::kIpc);
    // What a worker is told is of when results came; repeated tasks are those that were told.
    Unordered program(name, options, [&](int64_t round) {
      if (round == 20) kill_worker(*crew, 0);
    });
    const auto error = tests::error_of([&] { run(program, *crew, restarting()); });
    ASSERT_EQ(error.has_value(), name == "fickle");
    EXPECT_GT(program.compared(), 0);
    if (error) {
      EXPECT_THAT(error->what(), HasSubstr("round 0 came to"));
    }
  }
}

TEST(Restarts, WhatAWorkerFailsWithItselfEndsTheRun) {
  const auto crew = crew_of(2, TransportKind::kIpc);
  Named program("failing", {.workers = 2});
  const auto error = tests::error_of([&] { run(program, *crew, restarting()); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("the light went out"));
}

TEST(Restarts, WhereNoneAreWantedALossEndsTheRun) {
  const auto crew = crew_of(2, TransportKind::kShm);
  Ring program({.workers = 2}, [&](int64_t round) {
    if (round == 20) kill_worker(*crew, 0);
  });
  const auto error = tests::error_of([&] { run(program, *crew); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kLost);
}

}  // namespace
}  // namespace kerf::schedmp
