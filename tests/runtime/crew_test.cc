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
#include "tests/runtime/crew_of_words.h"
#include "tests/support/errors.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using tests::end_of;
using tests::no_channels;
using tests::options_for;
using tests::seconds_since;
using tests::start_crew;
using tests::take;
using tests::wait_for_report;

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
  const auto error = kerf::tests::error_of([&] { crew->start("nonsense", {""}, no_channels(1)); });
  ASSERT_TRUE(error) << "started";
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_THAT(error->message(), HasSubstr("nonsense"));
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
  const auto error = kerf::tests::error_of([&] { Crew::assemble(options); });
  ASSERT_TRUE(error) << "assembled";
  EXPECT_EQ(error->code(), ErrorCode::kInterrupted);
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
  const auto error = kerf::tests::error_of([&] { crew->stop(); });
  ASSERT_TRUE(error) << "stopped";
  EXPECT_THAT(error->message(), AllOf(HasSubstr("worker 1"), HasSubstr("signal 9")));
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
    ASSERT_TRUE(wait_for_report(*crew, 0, "'sleep 20000'"));
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

}  // namespace
}  // namespace kerf::runtime
