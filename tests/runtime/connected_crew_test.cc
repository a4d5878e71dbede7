// Workers that connect by themselves: who may join, and how each side notices that the other is
// gone.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <future>
#include <set>
#include <thread>

#include "runtime/crew.h"
#include "runtime/messages.h"
#include "runtime/process.h"
#include "runtime/wire.h"
#include "tests/runtime/crew_of_words.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_worker.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using tests::assemble_anywhere;
using tests::end_of;
using tests::wait_for_report;

Process start_worker(const std::string& address, std::vector<std::string> more = {}) {
  std::vector<std::string> command{KERF_TEST_WORKER, "--connect", address};
  command.insert(command.end(), more.begin(), more.end());
  return Process::spawn(command);
}

// It listens where the system has a port free.
CrewOptions options_for(int workers) {
  CrewOptions options;
  options.workers = workers;
  options.transport = TransportKind::kTcp;
  options.listen = "tcp://127.0.0.1:*";
  options.identity = tests::test_identity();
  options.assemble_timeout = 20s;
  return options;
}

void start(Crew& crew, int workers) {
  const auto n = static_cast<size_t>(workers);
  crew.start("words", std::vector<std::string>(n), {n, std::vector<std::vector<Lane>>(n)});
}

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
      options_for(2),
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

tests::Channels all_to_all(size_t workers) {
  return {workers, std::vector<std::vector<Lane>>(workers, {{.slot_bytes = 4096, .slots = 2}})};
}

// Four workers, of which one says that it is elsewhere, and the last that it is in a container.
class ScatteredCrew : public testing::Test {
 protected:
  ScatteredCrew() { options_.transport = {}; }

  std::unique_ptr<Crew> assemble() {
    return assemble_anywhere(options_, [&](const std::string& address) {
      for (const char* index : {"0", "1"})
        workers_.push_back(start_worker(address, {"--index", index}));
      workers_.push_back(start_worker(address, {"--index", "2", "--host", "elsewhere"}));
      workers_.push_back(start_worker(address, {"--index", "3", "--container", "box"}));
    });
  }

  CrewOptions options_ = options_for(4);
  std::vector<Process> workers_;
};

TEST_F(ScatteredCrew, GivesEachPairTheTransportThatItCanHave) {
  const auto crew = assemble();
  EXPECT_EQ(crew->transport_between(0, 1), TransportKind::kShm);
  EXPECT_EQ(crew->transport_between(0, 2), TransportKind::kTcp);
  EXPECT_EQ(crew->transport_between(2, 1), TransportKind::kTcp);
  EXPECT_EQ(crew->transport_between(0, 3), TransportKind::kShm);
  EXPECT_EQ(crew->transport_between(3, 2), TransportKind::kTcp);
  crew->start("words", {"", "", "", ""}, all_to_all(4));
  for (int from = 0; from < 4; ++from)
    for (int to = 0; to < 4; ++to) {
      if (from == to) continue;
      crew->send(to, {kerf::format("receive {}", from)});
      crew->send(from, {kerf::format("send {} from {} to {}", to, from, to)});
      std::vector<std::string> results;
      while (results.size() < 2) {
        const auto batch = crew->next(after(10s));
        ASSERT_TRUE(batch);
        results.insert(results.end(), batch->results.begin(), batch->results.end());
      }
      EXPECT_THAT(results,
                  testing::UnorderedElementsAre("sent", kerf::format("from {} to {}", from, to)));
    }
  crew->stop();
}

TEST_F(ScatteredCrew, IsRefusedATransportThatAPairCannotHaveBeforeAnythingStarts) {
  options_.transport = TransportKind::kShm;
  const auto crew = assemble();
  const auto error = tests::error_of([&] {
    crew->start("words", {"", "", "", ""}, all_to_all(4));
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->message(), AllOf(HasSubstr("worker 0"), HasSubstr("worker 2"),
                                      HasSubstr("over shm"), HasSubstr("leave out --transport")));
  auto channels = all_to_all(4);
  for (size_t worker = 0; worker < 4; ++worker) channels[worker][2] = channels[2][worker] = {};
  crew->start("words", {"", "", "", ""}, channels);  // who exchanges nothing needs no transport
  crew->stop();
}

// What a worker, spoken by hand, is told to start with; nothing if it is told to stop before.
std::optional<Start> start_told_to(const std::string& address, int index, const Reach& reach) {
  const auto client = make_control_client(address);
  client->send(
      {ControlType::kRegister,
       encode(Registration{
           .identity = tests::test_identity(), .wish = index, .device = "cpu", .reach = reach})});
  for (const auto end = after(10s); Clock::now() < end;) {
    const auto message = client->receive(end);
    if (!message) continue;
    if (message->type == ControlType::kWelcome)
      client->send({ControlType::kAddress,
                    encode(Addresses{"tcp://127.0.0.1:5555", "tcp://127.0.0.1:5556"})});
    if (message->type == ControlType::kStart) {
      client->send({ControlType::kReady, {}});
      EXPECT_TRUE(client->flush(after(5s)));
      return decode<Start>(message->payload);
    }
    if (message->type == ControlType::kStop) break;
  }
  return {};
}

// What two workers of these places are told; what ends the crew is in `ended`.
std::vector<std::optional<Start>> starts_of(const Reach& a, const Reach& b,
                                            std::optional<Error>& ended,
                                            bool encrypt_data = false) {
  std::future<std::optional<Start>> first;
  std::future<std::optional<Start>> second;
  ended = tests::error_of([&] {
    CrewOptions options = options_for(2);
    options.encrypt_data = encrypt_data;
    const auto crew = assemble_anywhere(options, [&](const std::string& address) {
      first = std::async(std::launch::async, start_told_to, address, 0, a);
      second = std::async(std::launch::async, start_told_to, address, 1, b);
    });
    crew->start("words", {"", ""}, all_to_all(2), all_to_all(2));
  });
  std::vector<std::optional<Start>> starts;
  for (auto* const told : {&first, &second}) starts.push_back(told->get());
  return starts;
}

TEST(ConnectedCrew, TellsWorkersWhoseTensorsCrossANetwork) {
  for (const bool is_elsewhere : {true, false}) {
    std::optional<Error> ended;
    const auto starts =
        starts_of({.host = "a", .network = "one", .sockets = "a"},
                  {.host = "b", .network = "one", .sockets = is_elsewhere ? "b" : "a"}, ended);
    ASSERT_FALSE(ended) << ended->what();
    for (int32_t worker = 0; worker < 2; ++worker) {
      const std::vector<int32_t> others(is_elsewhere ? 1 : 0, 1 - worker);
      EXPECT_EQ(starts[static_cast<size_t>(worker)].value().wiring.elsewhere, others);
      EXPECT_EQ(starts[static_cast<size_t>(worker)].value().service.elsewhere, others);
    }
  }
}

TEST(ConnectedCrew, TellsWorkersByWhatTheyEncrypt) {
  std::set<std::string> secrets;
  for (const bool encrypts : {false, true, true}) {
    std::optional<Error> ended;
    const auto starts = starts_of({.host = "a", .network = "one"}, {.host = "b", .network = "one"},
                                  ended, encrypts);
    ASSERT_FALSE(ended) << ended->what();
    const Start& first = starts[0].value();
    const Start& second = starts[1].value();
    ASSERT_EQ(first.wiring.secrets.size(), encrypts ? 1u : 0u);
    ASSERT_EQ(second.service.secrets.size(), encrypts ? 1u : 0u);
    if (!encrypts) continue;
    EXPECT_EQ(first.wiring.secrets.at(1), second.wiring.secrets.at(0));
    EXPECT_EQ(first.service.secrets.at(1), second.service.secrets.at(0));
    secrets.insert({first.wiring.secrets.at(1), first.service.secrets.at(1)});
  }
  EXPECT_EQ(secrets.size(), 4u) << "each crew has its own, and of each pair each endpoint";
}

// Where memory is shared nothing is on a wire.
TEST_F(ScatteredCrew, CarriesMessagesThatAreEncryptedOverTcpAlone) {
  options_.encrypt_data = true;
  const auto crew = assemble();
  crew->start("words", {"", "", "", ""}, all_to_all(4));
  for (const auto& [from, to] : {std::pair(0, 1), {1, 2}, {2, 0}, {2, 3}}) {
    crew->send(to, {kerf::format("receive {}", from)});
    crew->send(from, {kerf::format("send {} a secret", to)});
    EXPECT_THAT(tests::take(*crew, 2), testing::UnorderedElementsAre("sent", "a secret"));
  }
  crew->stop();
}

// As one does that comes through a tunnel: its peers would connect to their own hosts.
TEST(ConnectedCrew, TellsNobodyOfAWorkerOfAnotherHostOnLoopback) {
  std::optional<Error> ended;
  for (const auto& start :
       starts_of({.host = "a", .network = "one"}, {.host = "b", .network = "two"}, ended))
    EXPECT_FALSE(start);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(ended->message(),
              AllOf(HasSubstr("worker 0"), HasSubstr("worker 1"), HasSubstr("different networks")));
}

TEST(ConnectedCrew, AWishForANumberIsGranted) {
  std::vector<Process> workers;
  const auto crew = assemble_anywhere(options_for(3), [&](const std::string& address) {
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
        options_for(2), [&](const std::string& address) { listens.set_value(address); },
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

TEST(ConnectedCrew, BehindALossWhoIsLeftComesAgainAndANewcomerTakesTheOtherPlace) {
  std::vector<Process> workers;
  const auto crew = assemble_anywhere(options_for(3), [&](const std::string& address) {
    for (const char* index : {"0", "1", "2"})
      workers.push_back(start_worker(address, {"--index", index}));
  });
  crew->start("words", {"", "", ""}, all_to_all(3));
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
TEST(ConnectedCrew, WhatAWorkerOfAnEpochBeforeSaysIsCountedApart) {
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
  auto options = options_for(1);
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

TEST(ConnectedCrew, WhoWaitsIsToldTheAddressThatWasBound) {
  auto options = options_for(1);
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
  auto options = options_for(2);
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
  auto options = options_for(2);
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

TEST(ConnectedCrew, AnAddressInUseIsAnErrorThatSaysSo) {
  const auto first = make_control_server("tcp://127.0.0.1:*");
  auto options = options_for(1);
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

TEST(ConnectedCrew, AKilledWorkerIsNoticedByItsConnection) {
  std::optional<Process> worker;
  const auto crew = assemble_anywhere(
      options_for(1), [&](const std::string& address) { worker = start_worker(address); });
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

TEST(ConnectedCrew, AWorkerThatDiesWhileLeavingIsNoticed) {
  std::optional<Process> worker;
  const auto crew = assemble_anywhere(
      options_for(1), [&](const std::string& address) { worker = start_worker(address); });
  start(*crew, 1);
  crew->send(0, {"perish"});
  ASSERT_TRUE(crew->next(after(10s)));
  const auto error = kerf::tests::error_of([&] { crew->stop(); });
  ASSERT_TRUE(error) << "stopped";
  EXPECT_THAT(error->message(), AllOf(HasSubstr("worker 0"), HasSubstr("connection broke")));
}

TEST(ConnectedCrew, AStoppedWorkerIsLostAndEndsWhenItWakesUp) {
  std::optional<Process> worker;
  auto crew = assemble_anywhere(
      options_for(1), [&](const std::string& address) { worker = start_worker(address); });
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
      const auto crew = assemble_anywhere(options_for(1), [&](const std::string& address) {
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
