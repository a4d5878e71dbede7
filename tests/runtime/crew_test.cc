// A crew of real workers: threads over inproc, child processes over shm, ipc and tcp.
#include "runtime/crew.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "runtime/process.h"
#include "tests/support/test_worker.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using tests::end_of;
using tests::wait_for_report;

const char* const kWorkerProgram = KERF_TEST_WORKER;

CrewOptions options_for(TransportKind transport, int workers) {
  return tests::crew_options(transport, workers, kWorkerProgram);
}

std::vector<std::vector<std::vector<Lane>>> no_channels(int workers) {
  const auto n = static_cast<size_t>(workers);
  return {n, std::vector<std::vector<Lane>>(n)};
}

// Everybody to everybody, one lane.
std::vector<std::vector<std::vector<Lane>>> all_channels(int workers) {
  const auto n = static_cast<size_t>(workers);
  return {n, std::vector<std::vector<Lane>>(n, {Lane{.slot_bytes = 4096, .slots = 2}})};
}

std::unique_ptr<Crew> start_crew(const CrewOptions& options, bool channels = false) {
  auto crew = Crew::assemble(options);
  crew->start("words", std::vector<std::string>(static_cast<size_t>(options.workers), "the job"),
              channels ? all_channels(options.workers) : no_channels(options.workers));
  return crew;
}

std::vector<std::string> take(Crew& crew, size_t count) {
  std::vector<std::string> all;
  while (all.size() < count) {
    auto batch = crew.next(after(10s));
    if (!batch) break;
    for (auto& result : batch->results) all.push_back(std::move(result));
  }
  return all;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

bool is_gone(int pid) { return ::kill(pid, 0) != 0; }

class CrewOver : public testing::TestWithParam<TransportKind> {};

TEST_P(CrewOver, DoesTasksInOrderAndEndsInOrder) {
  const auto crew = start_crew(options_for(GetParam(), 2));
  for (int worker = 0; worker < 2; ++worker)
    crew->send(worker, {"who", "job", "sum 20 22", "echo hello you"});
  std::map<int, std::vector<std::string>> results;
  for (size_t count = 0; count < 8;) {
    const auto batch = crew->next(after(10s));
    ASSERT_TRUE(batch);
    count += batch->results.size();
    auto& mine = results[batch->worker];
    mine.insert(mine.end(), batch->results.begin(), batch->results.end());
  }
  EXPECT_THAT(results[0], testing::ElementsAre("0 of 2, 1 threads", "the job", "42", "hello you"));
  EXPECT_THAT(results[1], testing::ElementsAre("1 of 2, 1 threads", "the job", "42", "hello you"));
  crew->stop();
}

TEST_P(CrewOver, TensorsGoStraightFromWorkerToWorker) {
  const auto crew = start_crew(options_for(GetParam(), 3), true);
  crew->send(0, {"receive 2"});
  crew->send(2, {"send 0 good morning"});
  EXPECT_THAT(take(*crew, 2), testing::UnorderedElementsAre("good morning", "sent"));
  crew->stop();
}

TEST_P(CrewOver, ManyTasksComeBackOnceAndInOrder) {
  const auto crew = start_crew(options_for(GetParam(), 2));
  const int count = 3000;
  for (int i = 0; i < count; ++i)
    for (int worker = 0; worker < 2; ++worker) crew->send(worker, {kerf::format("sum {} 1", i)});
  std::vector<int> expected(2, 1);
  for (int received = 0; received < 2 * count;) {
    const auto batch = crew->next(after(10s));
    ASSERT_TRUE(batch);
    for (const auto& result : batch->results)
      ASSERT_EQ(result, std::to_string(expected[static_cast<size_t>(batch->worker)]++));
    received += static_cast<int>(batch->results.size());
  }
  crew->stop();
}

TEST_P(CrewOver, JobsAboveAMessageAreCarriedWhole) {
  const auto crew = Crew::assemble(options_for(GetParam(), 1));
  crew->start("words", {std::string(5'000'000, 'x')}, no_channels(1));
  crew->send(0, {"job"});
  EXPECT_THAT(take(*crew, 1), testing::ElementsAre("5000000"));
  crew->stop();
}

TEST_P(CrewOver, AWorkersErrorIsThrownWithItsName) {
  const auto crew = start_crew(options_for(GetParam(), 2));
  crew->send(1, {"fail the sky fell"});
  const Error error = end_of(*crew);
  EXPECT_EQ(error.code(), ErrorCode::kInternal);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("worker 1"), HasSubstr("the sky fell")));
  EXPECT_EQ(error.where(), "test/fail");
}

TEST_P(CrewOver, AnUnknownProgramIsAnError) {
  const auto crew = Crew::assemble(options_for(GetParam(), 1));
  try {
    crew->start("nonsense", {""}, no_channels(1));
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.message(), HasSubstr("nonsense"));
  }
}

TEST_P(CrewOver, AWorkerThatWaitsInItsEndpointIsFreedByTheEnd) {
  auto crew = start_crew(options_for(GetParam(), 2), true);
  crew->send(0, {"receive 1"});
  EXPECT_FALSE(crew->next(after(100ms)));
  const auto begin = Clock::now();
  crew.reset();
  EXPECT_LT(seconds_since(begin), 2);
}

TEST_P(CrewOver, AnInterruptEndsTheWait) {
  const auto crew = start_crew(options_for(GetParam(), 1));
  const std::jthread presser([&] {
    std::this_thread::sleep_for(50ms);
    crew->interrupt();
  });
  const auto begin = Clock::now();
  EXPECT_EQ(end_of(*crew).code(), ErrorCode::kInterrupted);
  EXPECT_LT(seconds_since(begin), 5);
}

TEST_P(CrewOver, ClocksAreAligned) {
  const auto crew = start_crew(options_for(GetParam(), 1));
  EXPECT_FALSE(crew->next(after(300ms)));
  const auto info = crew->workers().at(0);
  EXPECT_GT(info.round_trip_ns, 0);
  // Both read the same clock of this host.
  EXPECT_LE(std::abs(info.clock_offset_ns), info.round_trip_ns);
}

INSTANTIATE_TEST_SUITE_P(All, CrewOver,
                         testing::Values(TransportKind::kInproc, TransportKind::kShm,
                                         TransportKind::kIpc, TransportKind::kTcp),
                         [](const auto& instance) {
                           return std::string(to_string(instance.param));
                         });

TEST(Crew, ABusySchedulerIsNotTakenForDead) {
  const auto crew = start_crew(options_for(TransportKind::kIpc, 1));
  std::this_thread::sleep_for(4s);
  crew->send(0, {"echo still here"});
  EXPECT_THAT(take(*crew, 1), testing::ElementsAre("still here"));
  crew->stop();
}

TEST(Crew, AnInterruptEndsTheWaitForWorkersToo) {
  auto options = options_for(TransportKind::kTcp, 1);
  options.listen = "tcp://127.0.0.1:*";
  options.interrupt = std::make_shared<Interrupt>();
  const std::jthread presser([&] {
    std::this_thread::sleep_for(50ms);
    options.interrupt->raise();
  });
  const auto begin = Clock::now();
  try {
    Crew::assemble(options);
    FAIL() << "assembled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInterrupted);
  }
  EXPECT_LT(seconds_since(begin), 2);
}

TEST(Crew, WorkersThatNobodyWelcomedEndWithTheCrew) {
  for (const auto transport : {TransportKind::kInproc, TransportKind::kIpc}) {
    auto options = options_for(transport, 3);
    options.interrupt = std::make_shared<Interrupt>();
    options.interrupt->raise();
    const auto begin = Clock::now();
    EXPECT_THROW(Crew::assemble(options), Error);
    EXPECT_LT(seconds_since(begin), 3);
  }
}

TEST(Crew, AWorkerThatDiesWhileLeavingIsNoticed) {
  const auto crew = start_crew(options_for(TransportKind::kIpc, 2));
  crew->send(1, {"perish"});
  ASSERT_THAT(take(*crew, 1), testing::ElementsAre("will perish"));
  try {
    crew->stop();
    FAIL() << "stopped";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), AllOf(HasSubstr("worker 1"), HasSubstr("signal 9")));
  }
}

// Tasks that have not begun are not begun any more.
TEST(Crew, AStopIsHeededWithinABatch) {
  for (const auto transport : {TransportKind::kInproc, TransportKind::kIpc})
    for (const bool in_order : {true, false}) {
      auto crew = start_crew(options_for(transport, 2));
      for (int worker = 0; worker < 2; ++worker)
        crew->send(worker, std::vector<std::string>(50, "sleep 200"));
      ASSERT_THAT(take(*crew, 1), testing::Contains("slept"));
      const auto begin = Clock::now();
      if (in_order) crew->stop();
      crew.reset();
      EXPECT_LT(seconds_since(begin), 2) << to_string(transport);
    }
}

TEST(Crew, TellsOfItsWorkersWhileItWaitsForResults) {
  const auto crew = start_crew(options_for(TransportKind::kIpc, 1));
  crew->send(0, {"sleep 3000"});
  const std::jthread waiter([&] { EXPECT_TRUE(crew->next(after(10s))); });
  std::this_thread::sleep_for(100ms);
  const auto begin = Clock::now();
  EXPECT_EQ(crew->workers().at(0).outstanding, 1);
  EXPECT_LT(seconds_since(begin), 1.5);
}

TEST_P(CrewOver, WhatChannelsMendedAndTracesLostIsKnownAtTheEnd) {
  const auto crew = start_crew(options_for(GetParam(), 2), true);
  crew->send(0, {"trace 100000", "receive 1"});
  crew->send(1, {"trace 10", "send 0 a greeting"});
  EXPECT_EQ(take(*crew, 4).size(), 4u);
  crew->stop();
  const auto workers = crew->workers();
  EXPECT_GT(workers[0].spans_lost, 10'000);
  EXPECT_EQ(workers[1].spans_lost, 0);
  for (const auto& worker : workers) {
    EXPECT_EQ(worker.outstanding, 0);
    EXPECT_EQ(worker.resent, 0);
    EXPECT_EQ(worker.dropped, 0);
  }
}

TEST(Crew, AWorkerMayTakeItsTimeToTearDown) {
  const auto crew = start_crew(options_for(TransportKind::kIpc, 1));
  // Told to stop while it works, and then busy for longer than a stuck worker is given.
  crew->send(0, {"linger 1500"});
  ASSERT_THAT(take(*crew, 1), testing::ElementsAre("will linger"));
  crew->send(0, {"sleep 300"});
  ASSERT_TRUE(wait_for_report(*crew, 0, "'sleep 300'"));
  EXPECT_NO_THROW(crew->stop());
}

TEST(Crew, AWorkerOfOursThatDoesNotStopLeavesTheErrorToUs) {
  testing::internal::CaptureStderr();
  {
    const auto crew = start_crew(options_for(TransportKind::kIpc, 1));
    crew->send(0, {"echo begun", "sleep 20000"});
    EXPECT_THAT(take(*crew, 1), testing::ElementsAre("begun"));
    EXPECT_THROW(crew->stop(), Error);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Crew, TooFewDescriptorsForItsThreadsAreAnError) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan looks at memory through a pipe, for which no descriptor is left";
#endif
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(STDERR_FILENO);
  ::close(next);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(next) + 6;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_THROW(Crew::assemble(options_for(TransportKind::kInproc, 8)), Error);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Crew, AKilledWorkerIsNamedAtOnceWithWhatItDidAndWhoWaited) {
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

TEST(Crew, AStoppedWorkerIsLostBySilenceAndKilled) {
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

TEST(Crew, AWorkerThatExitsIsLostWithItsExitCode) {
  const auto crew = start_crew(options_for(TransportKind::kIpc, 2));
  crew->send(1, {"exit 7"});
  EXPECT_THAT(end_of(*crew).message(), AllOf(HasSubstr("worker 1"), HasSubstr("exit code 7")));
}

TEST(Crew, NoProgressEndsTheRunAndTheCulpritIsWhoWaitsForNobody) {
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

TEST(Crew, AHangIsFoundThoughTheWorkerSaysThatItIsIdle) {
  auto options = options_for(TransportKind::kIpc, 2);
  options.no_progress = 1s;
  const auto crew = start_crew(options);
  crew->send(1, {"echo begun", "pretend 20000"});
  ASSERT_THAT(take(*crew, 1), testing::ElementsAre("begun"));
  EXPECT_THAT(end_of(*crew).message(),
              AllOf(StartsWith("worker 1"), HasSubstr("no progress for 1."),
                    HasSubstr("says that it is idle but owes 1 result")));
}

TEST(Crew, ATaskThatTakesLongerThanAnyMayIsFound) {
  auto options = options_for(TransportKind::kIpc, 1);
  options.task_limit = 1s;
  const auto crew = start_crew(options);
  crew->send(0, {"sleep 700"});  // as long as it likes
  EXPECT_EQ(take(*crew, 1).size(), 1u);
  crew->send(0, {"sleep 20000"});
  EXPECT_THAT(end_of(*crew).message(), HasSubstr("one task has taken 1."));
}

TEST(Crew, WorkersThatWaitForEachOtherEndTheRun) {
  auto options = options_for(TransportKind::kIpc, 2);
  options.no_progress = 1s;
  const auto crew = start_crew(options, true);
  crew->send(0, {"receive 1"});
  crew->send(1, {"receive 0"});
  EXPECT_THAT(end_of(*crew).message(),
              AllOf(HasSubstr("no progress for 1."), HasSubstr("everybody who is at work waits"),
                    HasSubstr("from worker 0"), HasSubstr("from worker 1")));
}

TEST(Crew, AWorkerMayWaitForOneThatHadNoWorkForLong) {
  auto options = options_for(TransportKind::kIpc, 2);
  options.no_progress = 1s;
  const auto crew = start_crew(options, true);
  crew->send(0, {"receive 1"});
  std::this_thread::sleep_for(1500ms);  // the scheduler thinks
  crew->send(1, {"send 0 at last"});
  EXPECT_THAT(take(*crew, 2), testing::UnorderedElementsAre("at last", "sent"));
  crew->stop();
}

TEST(Crew, AWorkerThatCannotStartIsAnError) {
  auto options = options_for(TransportKind::kIpc, 2);
  options.worker_command = {"/nonexistent/kerf"};
  EXPECT_THROW(Crew::assemble(options), Error);
  options.worker_command = {"/bin/false"};
  try {
    Crew::assemble(options);
    FAIL() << "assembled";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("exit code 1"));
  }
}

TEST(Crew, NothingIsLeftWhenAnExceptionUnwinds) {
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
