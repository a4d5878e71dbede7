// How a crew ends when a worker dies, is stopped, hangs or cannot start: soon, with the first
// cause, and with nothing left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "tests/runtime/crew_of_words.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using tests::end_of;
using tests::is_gone;
using tests::options_for;
using tests::seconds_since;
using tests::start_crew;
using tests::take;
using tests::wait_for_report;

TEST(CrewDeath, AKilledWorkerIsNamedAtOnceWithWhatItDidAndWhoWaited) {
  auto crew = start_crew(options_for(TransportKind::kShm, 3), true);
  std::set<int> pids;
  for (const auto& worker : crew->workers()) pids.insert(worker.pid);
  crew->send(0, {"receive 1"});
  crew->send(1, {"sleep 20000"});
  ASSERT_TRUE(wait_for_report(*crew, 0, "a greeting"));
  ASSERT_TRUE(wait_for_report(*crew, 1, "'sleep 20000'"));
  const auto begin = Clock::now();
  ::kill(crew->workers()[1].pid, SIGKILL);
  const Error error = end_of(*crew);
  EXPECT_LT(seconds_since(begin), 2);
  EXPECT_EQ(error.code(), ErrorCode::kLost);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr(kerf::format("worker 1 (pid {})", crew->workers()[1].pid)),
                    HasSubstr("signal 9 (Killed)"), HasSubstr("'sleep 20000'"),
                    HasSubstr("s for a greeting from worker 1, while doing 'receive 1'"),
                    testing::ContainsRegex("worker 2 .* is idle")));
  crew.reset();
  EXPECT_LT(seconds_since(begin), 5);
  for (const int pid : pids) EXPECT_TRUE(is_gone(pid)) << pid;
}

// It tells so itself, and another process may have a sound one.
TEST(CrewDeath, AWorkerWhoseDeviceFailedIsLostAndAnotherTakesItsPlace) {
  auto crew = start_crew(options_for(TransportKind::kShm, 2), true);
  const int before = crew->workers()[1].pid;
  crew->send(0, {"receive 1"});
  ASSERT_TRUE(wait_for_report(*crew, 0, "a greeting"));
  crew->send(1, {"lose a kernel went astray"});
  const Error error = end_of(*crew);
  EXPECT_EQ(error.code(), ErrorCode::kLost);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr(kerf::format("worker 1 (pid {}) was lost: its device failed: "
                                           "cuda:7: a kernel went astray",
                                           before)),
                    HasSubstr("a greeting from worker 1")));
  EXPECT_EQ(crew->culprit(), 1);
  ASSERT_TRUE(crew->can_restart());
  crew->restart();
  EXPECT_NE(crew->workers()[1].pid, before);
  crew->send(1, {"echo here again"});
  EXPECT_THAT(take(*crew, 1), testing::ElementsAre("here again"));
  crew->stop();
}

TEST(CrewDeath, AStoppedWorkerIsLostBySilenceAndKilled) {
  auto crew = start_crew(options_for(TransportKind::kIpc, 2));
  const int pid = crew->workers()[0].pid;
  const auto begin = Clock::now();
  ::kill(pid, SIGSTOP);
  const Error error = end_of(*crew);
  EXPECT_EQ(error.code(), ErrorCode::kLost);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("worker 0"), HasSubstr("silent for ")));
  crew.reset();
  EXPECT_LT(seconds_since(begin), 5);
  EXPECT_TRUE(is_gone(pid));
}

TEST(CrewDeath, AWorkerThatExitsIsLostWithItsExitCode) {
  const auto crew = start_crew(options_for(TransportKind::kIpc, 2));
  crew->send(1, {"exit 7"});
  EXPECT_THAT(end_of(*crew).message(), AllOf(HasSubstr("worker 1"), HasSubstr("exit code 7")));
}

TEST(CrewDeath, NoProgressEndsTheRunAndTheCulpritIsWhoWaitsForNobody) {
  auto options = options_for(TransportKind::kIpc, 2);
  options.no_progress = 1s;
  const auto crew = start_crew(options, true);
  crew->send(0, {"receive 1"});
  crew->send(1, {"sleep 20000"});
  const Error error = end_of(*crew);
  EXPECT_EQ(error.code(), ErrorCode::kLost);
  EXPECT_THAT(error.message(), AllOf(StartsWith("worker 1"), HasSubstr("no progress for 1."),
                                     HasSubstr("from worker 1")));
}

TEST(CrewDeath, AHangIsFoundThoughTheWorkerSaysThatItIsIdle) {
  auto options = options_for(TransportKind::kIpc, 2);
  options.no_progress = 1s;
  const auto crew = start_crew(options);
  crew->send(1, {"echo begun", "pretend 20000"});
  ASSERT_THAT(take(*crew, 1), testing::ElementsAre("begun"));
  EXPECT_THAT(end_of(*crew).message(),
              AllOf(StartsWith("worker 1"), HasSubstr("no progress for 1."),
                    HasSubstr("says that it is idle but owes 1 result")));
}

TEST(CrewDeath, ATaskThatTakesLongerThanAnyMayIsFound) {
  auto options = options_for(TransportKind::kIpc, 1);
  options.task_limit = 1s;
  const auto crew = start_crew(options);
  crew->send(0, {"sleep 700"});  // as long as it likes
  EXPECT_EQ(take(*crew, 1).size(), 1u);
  crew->send(0, {"sleep 20000"});
  EXPECT_THAT(end_of(*crew).message(), HasSubstr("one task has taken 1."));
}

// Well before a worker that is at work would be taken for lost.
TEST(CrewDeath, WorkersThatWaitForEachOtherEndTheRun) {
  auto options = options_for(TransportKind::kIpc, 2);
  options.deadlock = 1s;
  options.no_progress = 300s;
  const auto crew = start_crew(options, true);
  crew->send(0, {"receive 1"});
  crew->send(1, {"receive 0"});
  EXPECT_THAT(end_of(*crew).message(),
              AllOf(HasSubstr("no progress for 1."), HasSubstr("everybody who is at work waits"),
                    HasSubstr("from worker 0"), HasSubstr("from worker 1")));
}

TEST(CrewDeath, AWorkerMayWaitForOneThatHadNoWorkForLong) {
  auto options = options_for(TransportKind::kIpc, 2);
  options.no_progress = 1s;
  const auto crew = start_crew(options, true);
  crew->send(0, {"receive 1"});
  std::this_thread::sleep_for(1500ms);  // the scheduler thinks
  crew->send(1, {"send 0 at last"});
  EXPECT_THAT(take(*crew, 2), testing::UnorderedElementsAre("at last", "sent"));
  crew->stop();
}

TEST(CrewDeath, BehindALossOthersTakeAllPlaces) {
  for (const auto transport : {TransportKind::kShm, TransportKind::kTcp}) {
    const auto crew = start_crew(options_for(transport, 3), true);
    const auto before = crew->workers();
    EXPECT_FALSE(crew->can_restart());
    crew->send(0, {"receive 1", "echo never"});
    crew->send(1, {"die"});
    EXPECT_EQ(end_of(*crew).code(), ErrorCode::kLost);
    ASSERT_TRUE(crew->can_restart());
    crew->restart();
    EXPECT_FALSE(crew->can_restart());
    for (const auto& worker : before) EXPECT_TRUE(is_gone(worker.pid));
    // Nothing of what was sent or owed is there any more, and channels are as new.
    crew->send(0, {"receive 1"});
    crew->send(1, {"send 0 hello"});
    EXPECT_THAT(take(*crew, 2), testing::UnorderedElementsAre("hello", "sent"));
    crew->stop();
  }
}

TEST(CrewDeath, NobodyTakesThePlaceOfWhoHangsOrFailsByItself) {
  auto options = options_for(TransportKind::kIpc, 1);
  options.no_progress = 500ms;
  const auto hanging = start_crew(options);
  hanging->send(0, {"sleep 20000"});
  EXPECT_EQ(end_of(*hanging).code(), ErrorCode::kLost);
  EXPECT_FALSE(hanging->can_restart());
  const auto failing = start_crew(options_for(TransportKind::kIpc, 1));
  failing->send(0, {"fail here"});
  EXPECT_THAT(end_of(*failing).message(), HasSubstr("here"));
  EXPECT_FALSE(failing->can_restart());
}

TEST(CrewDeath, WhatAWorkerLeavesInAKeptFileOutlivesIt) {
  const auto crew = start_crew(options_for(TransportKind::kIpc, 2));
  const std::string file = crew->kept_file(1, 0);
  EXPECT_EQ(crew->kept_file(1, 0), file);
  EXPECT_EQ(std::set<std::string>({file, crew->kept_file(1, 1), crew->kept_file(0, 0)}).size(), 3u);
  crew->send(1, {"write " + file + " what I had"});
  ASSERT_THAT(take(*crew, 1), testing::ElementsAre("written"));
  crew->send(1, {"die"});
  EXPECT_EQ(end_of(*crew).code(), ErrorCode::kLost);
  crew->restart();
  crew->send(1, {"read " + file});
  EXPECT_THAT(take(*crew, 1), testing::ElementsAre("what I had"));
  crew->stop();
}

// What workers that are gone had told of what they mended and lost counts with those behind them.
TEST(CrewDeath, WhatWorkersCountedBeforeALossIsKept) {
  const auto crew = start_crew(options_for(TransportKind::kIpc, 2));
  const auto lost = [&] { return crew->workers().at(0).spans_lost; };
  const auto lose_spans = [&] {
    crew->send(0, {"trace 50000", "sleep 300"});  // so long that it looks behind them
    ASSERT_EQ(take(*crew, 2).size(), 2u);
  };
  lose_spans();
  for (const auto until = after(10s); lost() == 0 && Clock::now() < until;)
    ASSERT_FALSE(crew->next(after(20ms)));
  const int64_t first = lost();
  ASSERT_GT(first, 1'000);
  crew->send(1, {"die"});
  EXPECT_EQ(end_of(*crew).code(), ErrorCode::kLost);
  EXPECT_EQ(lost(), first);
  crew->restart();
  EXPECT_EQ(lost(), first);
  lose_spans();
  crew->stop();
  EXPECT_EQ(lost(), 2 * first);
  EXPECT_EQ(crew->workers().at(1).spans_lost, 0);
}

TEST(CrewDeath, AWorkerThatCannotStartIsAnError) {
  auto options = options_for(TransportKind::kIpc, 2);
  options.worker_command = {"/nonexistent/kerf"};
  EXPECT_THROW(Crew::assemble(options), Error);
  options.worker_command = {"/bin/false"};
  const auto error = kerf::tests::error_of([&] { Crew::assemble(options); });
  ASSERT_TRUE(error) << "assembled";
  EXPECT_THAT(error->message(), HasSubstr("exit code 1"));
}

// Workers that kill themselves as soon as they are started, by how many times each was started.
class DeathsWhileAssembled : public testing::Test {
 protected:
  CrewOptions dying(const std::string& when) {
    CrewOptions options = options_for(TransportKind::kIpc, 2);
    options.worker_command.insert(options.worker_command.begin(),
                                  {"/bin/sh", "-c",
                                   kerf::format("echo >> {0}/$4; starts=$(wc -l < {0}/$4)\n"
                                                "case $4-$starts in {1}) kill -9 $$;; esac\n"
                                                "exec \"$0\" \"$@\"",
                                                folder_.path().string(), when)});
    options.begins_again = [this](const Error& loss) { told_.push_back(loss.message()); };
    return options;
  }

  tests::TemporaryFolder folder_;
  std::vector<std::string> told_;
};

TEST_F(DeathsWhileAssembled, AreGoneOnFromAsLongAsTheyAreOfOthers) {
  const auto crew = start_crew(dying("0-1 | 0-2 | 1-3 | 1-4"));
  EXPECT_EQ(told_.size(), 4);
  crew->stop();
}

TEST_F(DeathsWhileAssembled, OfOneWorkerAreThree) {
  const auto error = kerf::tests::error_of([&] { Crew::assemble(dying("1-*")); });
  ASSERT_TRUE(error) << "assembled";
  EXPECT_EQ(error->code(), ErrorCode::kLost);
  EXPECT_THAT(error->message(), HasSubstr("worker 1"));
  EXPECT_EQ(told_.size(), 2);
}

TEST(CrewDeath, NothingIsLeftWhenAnExceptionUnwinds) {
  std::vector<int> pids;
  try {
    const auto crew = start_crew(options_for(TransportKind::kTcp, 2));
    for (const auto& worker : crew->workers()) pids.push_back(worker.pid);
    throw std::runtime_error("unwind");
  } catch (const std::runtime_error&) {
  }
  ASSERT_EQ(pids.size(), 2u);
  for (const int pid : pids) EXPECT_TRUE(is_gone(pid));
}

}  // namespace
}  // namespace kerf::runtime
