// Workers that connect by themselves: who may join, and where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <thread>

#include "runtime/crew.h"
#include "runtime/messages.h"
#include "runtime/process.h"
#include "runtime/wire.h"
#include "tests/runtime/joining_workers.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_worker.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using tests::assemble_anywhere;
using tests::listening_options;
using tests::start;
using tests::start_worker;

// What the scheduler answers to a registration.
ControlMessage answer_to(const std::string& address, const Registration& registration) {
  const auto client = make_control_client(address);
  client->send({ControlType::kRegister, encode(registration)});
  for (const auto end = after(5s); Clock::now() < end;)
    if (auto answer = client->receive(end); answer && answer->type != ControlType::kSpare)
      return *answer;
  return {};
}

TEST(ConnectedCrew, WorksAndEndsInOrder) {
  std::vector<Process> workers;
  std::vector<int> told;
  std::string where;
  const auto crew = assemble_anywhere(
      listening_options(2),
      [&](const std::string& address) {
        where = address;
        for (int i = 0; i < 2; ++i) workers.push_back(start_worker(address));
      },
      [&](int n, const std::string&) { told.push_back(n); });
  EXPECT_EQ(told.front(), 0);
  EXPECT_EQ(told.back(), 2);
  EXPECT_EQ(crew->address(), where);
  start(*crew, 2);
  crew->send(1, {"sum 1 2"});
  const auto batch = crew->next(after(5s));
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->results.at(0), "3");
  crew->stop();
  for (auto& worker : workers) EXPECT_EQ(worker.wait(after(5s)), "exit code 0");
}

TEST(ConnectedCrew, AWishForANumberIsGranted) {
  std::vector<Process> workers;
  const auto crew = assemble_anywhere(listening_options(3), [&](const std::string& address) {
    for (const char* index : {"2", "0", "1"})
      workers.push_back(start_worker(address, {"--index", index}));
  });
  EXPECT_EQ(crew->workers()[2].pid, workers[0].pid());
  EXPECT_EQ(crew->workers()[0].pid, workers[1].pid());
  EXPECT_EQ(crew->workers()[1].pid, workers[2].pid());
}

TEST(ConnectedCrew, WhoDiffersOrComesTwiceOrTooLateIsToldWhy) {
  std::promise<std::string> listens;
  std::promise<void> one_is_here;
  auto assembled = std::async(std::launch::async, [&] {
    return assemble_anywhere(
        listening_options(2), [&](const std::string& address) { listens.set_value(address); },
        [&](int here, const std::string&) {
          if (here == 1) one_is_here.set_value();
        });
  });
  const std::string address = listens.get_future().get();
  Registration registration{.identity = tests::test_identity(), .pid = 1, .device = "cpu"};

  registration.identity.build = "other";
  auto answer = answer_to(address, registration);
  EXPECT_EQ(answer.type, ControlType::kRefuse);
  EXPECT_THAT(answer.payload, AllOf(HasSubstr("'other'"), HasSubstr("'test 1'")));

  registration.identity = {.build = "test 1", .instructions = "avx10"};
  EXPECT_THAT(answer_to(address, registration).payload, HasSubstr("'avx10'"));

  registration.identity = tests::test_identity();
  registration.wish = 2;
  EXPECT_THAT(answer_to(address, registration).payload, HasSubstr("no worker 2 among 2"));

  auto first = start_worker(address, {"--index", "1"});
  ASSERT_EQ(one_is_here.get_future().wait_for(10s), std::future_status::ready);
  registration.wish = 1;
  EXPECT_THAT(answer_to(address, registration).payload, HasSubstr("has that number already"));

  auto second = start_worker(address);
  const auto crew = assembled.get();
  auto third = start_worker(address);
  EXPECT_FALSE(crew->next(after(300ms)));
  EXPECT_EQ(third.wait(after(5s)),
            kerf::format("exit code {}", exit_code(ErrorCode::kUnavailable)));
}

TEST(ConnectedCrew, WhoWaitsIsToldTheAddressThatWasBound) {
  auto options = listening_options(1);
  options.assemble_timeout = 1ms;
  std::string told;
  EXPECT_THROW(Crew::assemble(options, [&](int, const std::string& address) { told = address; }),
               Error);
  EXPECT_THAT(told, testing::MatchesRegex("tcp://127\\.0\\.0\\.1:[0-9]+"));
}

// Workers that the crew starts itself come late here, so that strangers come first.
TEST(OwnCrew, StrangersGetNoPlaceOfItsProcessesAndDoNotEndIt) {
  const tests::TemporaryFolder folder;
  const std::string gate = (folder.path() / "gate").string();
  auto options = listening_options(2);
  options.listen.clear();
  options.worker_command = {"/bin/sh", "-c",
                            "until [ -e " + gate + " ]; do sleep 0.01; done; exec \"$0\" \"$@\"",
                            KERF_TEST_WORKER};
  std::vector<std::string> answers;
  std::jthread strangers;
  const auto crew = Crew::assemble(options, [&](int here, const std::string& address) {
    if (here > 0) return;
    strangers = std::jthread([&, address] {
      for (const int wish : {-1, 0, 1})
        for (const char* build : {"test 1", "other"}) {
          Registration registration{.identity = tests::test_identity(), .pid = 1, .device = "cpu"};
          registration.wish = wish;
          registration.identity.build = build;
          answers.push_back(answer_to(address, registration).payload);
        }
      std::ofstream{gate};
    });
  });
  strangers.join();
  EXPECT_THAT(answers,
              AllOf(testing::SizeIs(6), testing::Each("this run starts its workers itself")));
  start(*crew, 2);
  crew->stop();
}

TEST(ConnectedCrew, TooFewWorkersAreCountedInTheError) {
  auto options = listening_options(2);
  options.assemble_timeout = 3s;
  std::optional<Process> worker;
  const auto error = kerf::tests::error_of([&] {
    assemble_anywhere(options, [&](const std::string& address) { worker = start_worker(address); });
  });
  ASSERT_TRUE(error) << "assembled";
  EXPECT_EQ(error->code(), ErrorCode::kTimeout);
  EXPECT_THAT(error->message(), HasSubstr("1 of 2 workers"));
  EXPECT_EQ(worker->wait(after(5s)), "exit code 0");
}

// Tasks of a launcher, whose run may be done before the last of them has begun: a worker and two
// spares.
class AwaitedTasks : public testing::Test {
 protected:
  static constexpr int kAll = 3;

  AwaitedTasks() : options_(listening_options(1)) {
    options_.spares = kAll - 1;
    options_.interrupt = std::make_shared<Interrupt>();
    options_.tell = [this](const std::string& what) { told_.push_back(what); };
  }
  void run_with(int tasks) {
    begin_ = Clock::now();
    crew_ = assemble_anywhere(options_, [&](const std::string& address) {
      for (int i = 0; i < tasks; ++i) tasks_.push_back(start_worker(address));
    });
    start(*crew_, 1);
    crew_->stop();
    stopped_ = Clock::now();
  }
  void start_later() {
    tasks_.push_back(Process::spawn({"/bin/sh", "-c", "sleep 0.5; exec \"$@\"", "sh",
                                     KERF_TEST_WORKER, "--connect", crew_->address()}));
  }
  void expect_that_all_ended_well() {
    for (Process& task : tasks_) EXPECT_EQ(task.wait(after(5s)), "exit code 0");
  }

  CrewOptions options_;
  std::vector<std::string> told_;
  std::unique_ptr<Crew> crew_;
  std::vector<Process> tasks_;
  Clock::time_point begin_, stopped_;
};

TEST_F(AwaitedTasks, AreToldThatAllIsDone) {
  run_with(kAll - 1);
  start_later();
  crew_->await(kAll);
  EXPECT_GE(Clock::now(), stopped_ + 500ms);
  EXPECT_LT(Clock::now(), stopped_ + 10s);
  expect_that_all_ended_well();
  EXPECT_THAT(told_, testing::ElementsAre(testing::ContainsRegex("waiting for [12] more to come")));
}

TEST_F(AwaitedTasks, ThatDoNotComeAreAwaitedAsLongAsWorkersAre) {
  options_.assemble_timeout = 4s;
  run_with(1);
  crew_->await(kAll);
  EXPECT_GE(Clock::now(), begin_ + 4s);
  EXPECT_LT(Clock::now(), begin_ + 12s);
  expect_that_all_ended_well();
}

TEST_F(AwaitedTasks, ARunThatIsDoneStaysSoWhenItIsInterruptedMeanwhile) {
  run_with(1);
  const std::jthread interrupting([this] {
    std::this_thread::sleep_for(300ms);
    options_.interrupt->ask();
  });
  crew_->await(kAll);
  EXPECT_GE(Clock::now(), stopped_ + 300ms);
  EXPECT_LT(Clock::now(), stopped_ + 5s);
  expect_that_all_ended_well();
}

TEST_F(AwaitedTasks, OnceAllHaveComeNobodyIsAwaited) {
  run_with(kAll);
  crew_->await(kAll);
  EXPECT_LT(Clock::now(), stopped_ + 5s);
  expect_that_all_ended_well();
}

TEST(ConnectedCrew, AnAddressInUseIsAnErrorThatSaysSo) {
  const auto first = make_control_server("tcp://127.0.0.1:*");
  auto options = listening_options(1);
  options.listen = first->address();
  const auto error = kerf::tests::error_of([&] { Crew::assemble(options); });
  ASSERT_TRUE(error) << "assembled";
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->message(), AllOf(HasSubstr(first->address()), HasSubstr("in use")));
}

bool takes(const std::string& address, bool has_keys) {
  const auto error = tests::error_of([&] { check_control_address(address, has_keys); });
  EXPECT_EQ(error.value_or(Error(ErrorCode::kUsage, "")).code(), ErrorCode::kUsage);
  return !error;
}

TEST(ConnectedCrew, WhatIsNoAddressIsRefused) {
  for (const char* address :
       {"tcp://0.0.0.0:5555", "tcp://*:5555", "tcp://[::]:5555", "tcp://127.0.0.1", "tcp://:5555",
        "tcp://127.0.0.1:99999", "tcp://127.1:80", "tcp://::1:80", "tcp://a b:80", "udp://x",
        "ipc:///tmp/file", "ipc://@", "", "127.0.0.1:5555"})
    for (const bool has_keys : {false, true}) EXPECT_FALSE(takes(address, has_keys)) << address;
}

TEST(ConnectedCrew, BeyondThisHostAnAddressNeedsKeys) {
  for (const char* address : {"tcp://127.0.0.1:5555", "tcp://127.3.2.1:*", "tcp://localhost:80",
                              "tcp://[::1]:5555", "ipc://@kerf"})
    for (const bool has_keys : {false, true}) EXPECT_TRUE(takes(address, has_keys)) << address;
  for (const char* address : {"tcp://192.168.0.1:5555", "tcp://[fd00::1]:*", "tcp://host-1:80",
                              "tcp://127.0.0.1.example.org:80"}) {
    EXPECT_FALSE(takes(address, false)) << address;
    EXPECT_TRUE(takes(address, true)) << address;
  }
}

}  // namespace
}  // namespace kerf::runtime
