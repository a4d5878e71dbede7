// Workers that connected by themselves and are gone, or whose scheduler is: how each side notices,
// and who takes the places.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "runtime/crew.h"
#include "runtime/messages.h"
#include "runtime/process.h"
#include "runtime/wire.h"
#include "tests/runtime/joining_workers.h"
#include "tests/support/errors.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using tests::all_channels;
using tests::assemble_anywhere;
using tests::end_of;
using tests::listening_options;
using tests::start;
using tests::start_worker;
using tests::wait_for_report;

TEST(LostConnection, BehindALossWhoIsLeftComesAgainAndANewcomerTakesTheOtherPlace) {
  std::vector<Process> workers;
  const auto crew = assemble_anywhere(listening_options(3), [&](const std::string& address) {
    for (const char* index : {"0", "1", "2"})
      workers.push_back(start_worker(address, {"--index", index}));
  });
  crew->start("words", {"", "", ""}, all_channels(3));
  crew->send(0, {"receive 1"});
  crew->send(2, {"sleep 20000"});  // whatever they are at
  ASSERT_TRUE(wait_for_report(*crew, 2, "'sleep 20000'"));
  workers[1].kill(SIGKILL);
  EXPECT_EQ(end_of(*crew).code(), ErrorCode::kLost);
  ASSERT_TRUE(crew->can_restart());
  std::optional<Process> newcomer;
  std::vector<int> told;
  crew->restart([&](int here, const std::string& where) {
    EXPECT_EQ(where, crew->address());
    told.push_back(here);
    if (here == 2) newcomer = start_worker(where);
  });
  EXPECT_EQ(told, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(crew->workers()[0].pid, workers[0].pid());
  EXPECT_EQ(crew->workers()[1].pid, newcomer->pid());
  EXPECT_EQ(crew->workers()[2].pid, workers[2].pid());
  crew->send(0, {"receive 1"});
  crew->send(1, {"send 0 hello"});
  EXPECT_THAT(tests::take(*crew, 2), testing::UnorderedElementsAre("hello", "sent"));
  crew->stop();
  EXPECT_EQ(workers[2].wait(after(5s)), "exit code 0");
}

// Taken for dead, it speaks on in the next epoch, in which its place is another's.
TEST(LostConnection, WhatAWorkerOfAnEpochBeforeSaysIsCountedApart) {
  std::atomic<bool> is_late{false};
  const auto speak = [&](const std::string& address) {
    const auto client = make_control_client(address);
    client->send({ControlType::kRegister,
                  encode(Registration{.identity = tests::test_identity(), .device = "cpu"})});
    while (!is_late) {
      const auto message = client->receive(after(20ms));
      if (message && message->type == ControlType::kWelcome)
        client->send({ControlType::kAddress,
                      encode(Addresses{"tcp://127.0.0.1:5555", "tcp://127.0.0.1:5556"})});
      if (message && message->type == ControlType::kStart) client->send({ControlType::kReady, {}});
    }
    client->send({ControlType::kResults, encode(std::vector<std::string>{"3"})});
    static_cast<void>(client->receive(after(1s)));
  };
  std::future<void> before;
  auto options = listening_options(1);
  options.silence = 1s;
  const auto crew = assemble_anywhere(options, [&](const std::string& address) {
    before = std::async(std::launch::async, speak, address);
  });
  start(*crew, 1);
  crew->send(0, {"sum 1 2"});
  EXPECT_EQ(end_of(*crew).code(), ErrorCode::kLost);
  std::optional<Process> newcomer;
  crew->restart([&](int here, const std::string& address) {
    if (here == 0) newcomer = start_worker(address);
  });
  EXPECT_EQ(crew->counters().fenced, 0);
  is_late = true;
  for (const auto end = after(5s); crew->counters().fenced == 0 && Clock::now() < end;)
    EXPECT_FALSE(crew->next(after(50ms))) << "nobody was asked in this epoch";
  EXPECT_EQ(crew->counters().fenced, 1);
  crew->send(0, {"sum 2 2"});
  EXPECT_THAT(tests::take(*crew, 1), testing::ElementsAre("4"));
  crew->stop();
  before.get();
}

TEST(LostConnection, AKilledWorkerIsNoticedByItsConnection) {
  std::optional<Process> worker;
  const auto crew = assemble_anywhere(
      listening_options(1), [&](const std::string& address) { worker = start_worker(address); });
  start(*crew, 1);
  crew->send(0, {"sleep 20000"});
  ASSERT_TRUE(wait_for_report(*crew, 0, "'sleep 20000'"));
  const auto begin = Clock::now();
  worker->kill(SIGKILL);
  const auto error = end_of(*crew);
  EXPECT_LT(Clock::now() - begin, 2s);
  EXPECT_EQ(error.code(), ErrorCode::kLost);
  EXPECT_THAT(error.message(), AllOf(HasSubstr(kerf::format("worker 0 (pid {})", worker->pid())),
                                     HasSubstr("connection broke"), HasSubstr("'sleep 20000'")));
}

TEST(LostConnection, AWorkerThatDiesWhileLeavingIsNoticed) {
  std::optional<Process> worker;
  const auto crew = assemble_anywhere(
      listening_options(1), [&](const std::string& address) { worker = start_worker(address); });
  start(*crew, 1);
  crew->send(0, {"perish"});
  ASSERT_TRUE(crew->next(after(10s)));
  const auto error = kerf::tests::error_of([&] { crew->stop(); });
  ASSERT_TRUE(error) << "stopped";
  EXPECT_THAT(error->message(), AllOf(HasSubstr("worker 0"), HasSubstr("connection broke")));
}

TEST(LostConnection, AStoppedWorkerIsLostAndEndsWhenItWakesUp) {
  std::optional<Process> worker;
  auto crew = assemble_anywhere(
      listening_options(1), [&](const std::string& address) { worker = start_worker(address); });
  start(*crew, 1);
  worker->kill(SIGSTOP);
  EXPECT_THAT(end_of(*crew).message(), HasSubstr("silent for "));
  crew.reset();
  worker->kill(SIGCONT);
  EXPECT_TRUE(worker->wait(after(5s)));
}

// The scheduler runs in a process of its own, so that it can be killed.
class KilledScheduler : public testing::TestWithParam<const char*> {};

TEST_P(KilledScheduler, EndsItsWorkersWithinFiveSeconds) {
  const std::string task = GetParam();
  int report[2];
  ASSERT_EQ(::pipe2(report, O_CLOEXEC), 0);
  const pid_t scheduler = ::fork();
  if (scheduler == 0) try {
      const auto crew = assemble_anywhere(listening_options(1), [&](const std::string& address) {
        tests::write_line(report[1], address);
      });
      start(*crew, 1);
      crew->send(0, {task});
      tests::write_line(report[1], "has a task");
      while (true) static_cast<void>(crew->next(after(1s)));
    } catch (const std::exception&) {
      ::_exit(1);
    }
  ::close(report[1]);  // so that reading ends if the scheduler does
  auto worker = start_worker(tests::read_line(report[0]));
  ASSERT_EQ(tests::read_line(report[0]), "has a task");
  std::this_thread::sleep_for(300ms);
  ::kill(scheduler, SIGKILL);
  ::waitpid(scheduler, nullptr, 0);
  const auto begin = Clock::now();
  EXPECT_TRUE(worker.wait(after(10s)));
  EXPECT_LT(Clock::now() - begin, 5s);
  ::close(report[0]);
}

INSTANTIATE_TEST_SUITE_P(While, KilledScheduler, testing::Values("echo idle", "sleep 60000"),
                         [](const auto& instance) {
                           return instance.param == std::string("echo idle") ? "Idle" : "Busy";
                         });

}  // namespace
}  // namespace kerf::runtime
