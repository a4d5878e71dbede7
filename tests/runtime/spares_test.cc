// Who comes to a run that has all of its workers: spares, which wait for the place of a lost one,
// and the next worker of a keeper, which takes the place of the one before it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "runtime/crew.h"
#include "runtime/process.h"
#include "tests/runtime/crew_of_words.h"
#include "tests/runtime/joining_workers.h"
#include "tests/support/errors.h"
#include "tests/support/test_worker.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using tests::end_of;

class Spares : public testing::Test {
 protected:
  Spares() {
    options_.workers = 2;
    options_.spares = 1;
    options_.identity = tests::test_identity();
    options_.assemble_timeout = 20s;
  }

  Process start_worker(const std::vector<std::string>& more = {}) {
    return tests::start_worker(address_, more);
  }

  Process start_later(const std::string& seconds, const std::string& index) {
    return Process::spawn({"/bin/sh", "-c", "sleep $0; exec \"$@\"", seconds, KERF_TEST_WORKER,
                           "--connect", address_, "--index", index});
  }

  // Once it listens, the first workers are started.
  void assemble(const std::function<void()>& begin, const Crew::Waiting& waiting = {}) {
    crew_ = tests::assemble_anywhere(
        options_,
        [&](const std::string& address) {
          address_ = address;
          begin();
        },
        waiting);
  }

  // With two workers, each of which began with these flags.
  void begin(const std::vector<std::string>& flags = {}) {
    assemble([&] {
      for (int i = 0; i < 2; ++i) workers_.push_back(start_worker(flags));
    });
    const std::vector<std::vector<Lane>> row(2, {{.slot_bytes = 4096, .slots = 2}});
    crew_->start("words", {"", ""}, {row, row});
  }

  std::vector<int> pids() const {
    std::vector<int> pids;
    for (const WorkerInfo& info : crew_->workers()) pids.push_back(info.pid);
    return pids;
  }

  // Worker 1 ends by SIGKILL. What the crew says of that.
  std::string kill_one() {
    ::kill(pids()[1], SIGKILL);
    std::string message = end_of(*crew_).message();
    EXPECT_TRUE(crew_->can_restart());
    return message;
  }

  void expect_work() {
    for (int worker = 0; worker < 2; ++worker) crew_->send(worker, {"who"});
    EXPECT_THAT(tests::take(*crew_, 2),
                testing::UnorderedElementsAre("0 of 2, 1 threads", "1 of 2, 1 threads"));
  }

  CrewOptions options_;
  std::string address_;
  std::vector<Process> workers_;
  std::unique_ptr<Crew> crew_;
};

TEST_F(Spares, AreToldToLeaveAtTheEnd) {
  begin();
  Process spare = start_worker();
  EXPECT_FALSE(crew_->next(after(500ms)));
  expect_work();
  EXPECT_FALSE(spare.ended());
  crew_->stop();
  EXPECT_EQ(spare.wait(after(5s)), "exit code 0");
}

TEST_F(Spares, WaitForLongerThanAWorkerWaitsForASilentScheduler) {
  begin();
  Process spare = start_worker();
  EXPECT_FALSE(crew_->next(after(kSilence + 1s)));
  EXPECT_FALSE(spare.ended());
  crew_->stop();
}

TEST_F(Spares, TakeThePlaceOfALostOneAloneThoughTheyWereThereFirst) {
  begin();
  const std::vector<int> before = pids();
  Process spare = start_worker();
  EXPECT_FALSE(crew_->next(after(500ms)));
  kill_one();
  crew_->restart();
  EXPECT_EQ(pids(), (std::vector<int>{before[0], spare.pid()}));
  expect_work();
  crew_->stop();
  EXPECT_EQ(spare.wait(after(5s)), "exit code 0");
}

TEST_F(Spares, BeyondTheirNumberAreRefused) {
  begin();
  const Process first = start_worker();
  EXPECT_FALSE(crew_->next(after(500ms)));
  Process second = start_worker();
  EXPECT_FALSE(crew_->next(after(500ms)));
  EXPECT_EQ(second.wait(after(5s)),
            kerf::format("exit code {}", exit_code(ErrorCode::kUnavailable)));
}

TEST_F(Spares, ThatDiedGiveTheirPlaceToOthers) {
  begin();
  {
    const Process first = start_worker();
    EXPECT_FALSE(crew_->next(after(500ms)));
  }
  EXPECT_FALSE(crew_->next(after(500ms)));
  Process second = start_worker();
  EXPECT_FALSE(crew_->next(after(500ms)));
  EXPECT_FALSE(second.ended());
  kill_one();
  crew_->restart();
  EXPECT_EQ(pids()[1], second.pid());
}

// What the kernel tells of it: its state and its parent; "X", dead, where it tells nothing.
std::pair<char, int> state_of(int process) {
  std::ifstream stat(kerf::format("/proc/{}/stat", process));
  std::string line;
  std::getline(stat, line);
  std::pair<char, int> state{'X', 0};
  if (!line.empty())
    std::istringstream(line.substr(line.rfind(')') + 2)) >> state.first >> state.second;
  return state;
}

int parent_of(int process) { return state_of(process).second; }

// Until it stands still: what it is sent in between it might do yet, and by an exec go on for good.
void stop(int process) {
  ::kill(process, SIGSTOP);
  const auto deadline = after(10s);
  while (state_of(process).first != 'T' && Clock::now() < deadline)
    std::this_thread::sleep_for(1ms);
  ASSERT_EQ(state_of(process).first, 'T') << "process " << process << " goes on";
}

TEST_F(Spares, OfAKeeperComeByThemselvesAndTakeTheSamePlace) {
  options_.spares = 0;
  begin({"--keep"});
  const std::vector<int> before = pids();
  EXPECT_THAT(kill_one(), testing::AnyOf(HasSubstr("connection broke"),
                                         HasSubstr("its keeper has started another")));
  crew_->restart();
  EXPECT_EQ(pids()[0], before[0]);
  EXPECT_NE(pids()[1], before[1]);
  for (const int pid : pids())
    EXPECT_THAT(parent_of(pid), testing::AnyOf(workers_[0].pid(), workers_[1].pid()));
  EXPECT_NE(parent_of(pids()[0]), parent_of(pids()[1]));
  expect_work();
  crew_->stop();
  for (Process& keeper : workers_) EXPECT_EQ(keeper.wait(after(5s)), "exit code 0");
}

// Three workers, of which the second is stopped while the two others are lost one behind the other:
// it has its place all the same.
TEST_F(Spares, OfAKeeperHaveTheirPlacesBehindALossAmongThoseWhoComeBack) {
  options_.spares = 0;
  options_.workers = 3;
  assemble([&] {
    for (int i = 0; i < 3; ++i) workers_.push_back(start_worker({"--keep"}));
  });
  crew_->start("words", {"", "", ""}, LaneTable(3, std::vector<std::vector<Lane>>(3)));
  const std::vector<int> before = pids();
  const int keeper = parent_of(before[2]);
  stop(keeper);  // starts none
  ::kill(before[2], SIGKILL);
  end_of(*crew_);
  stop(before[1]);
  EXPECT_THAT(kerf::tests::error_of([&] {
                crew_->restart([&](int here, const std::string&) {
                  if (here == 1) ::kill(before[0], SIGKILL);
                });
              })->message(),
              HasSubstr("worker 0"));
  ::kill(keeper, SIGCONT);
  crew_->restart([&](int here, const std::string&) {
    if (here == 2) ::kill(before[1], SIGCONT);
  });
  EXPECT_EQ(pids()[1], before[1]);
  EXPECT_EQ(parent_of(pids()[2]), keeper);
  crew_->stop();
}

// The first is not known to be lost when the second comes for its number.
TEST_F(Spares, ThatWishForTheNumberOfOneThatJustDiedHaveIt) {
  std::vector<std::string> told;
  options_.spares = 0;
  options_.begins_again = [&](const Error& loss) { told.push_back(loss.message()); };
  const auto start_first = [&] { workers_.push_back(start_worker({"--index", "0"})); };
  assemble(start_first, [&](int here, const std::string&) {
    if (here != 1 || workers_.size() > 1) return;
    workers_[0].kill(SIGKILL);
    workers_.push_back(start_worker({"--index", "0"}));
    workers_.push_back(start_later("2", "1"));
  });
  EXPECT_THAT(told, testing::ElementsAre(HasSubstr("worker 0")));
  EXPECT_EQ(pids(), (std::vector<int>{workers_[1].pid(), workers_[2].pid()}));
}

TEST_F(Spares, ThatWishForTheNumberOfOneThatIsThereAreRefused) {
  const auto start_first = [&] { workers_.push_back(start_worker({"--index", "0"})); };
  assemble(start_first, [&](int here, const std::string&) {
    if (here != 1 || workers_.size() > 1) return;
    workers_.push_back(start_worker({"--index", "0"}));
    workers_.push_back(start_later("3", "1"));
  });
  EXPECT_EQ(workers_[1].wait(after(1s)),
            kerf::format("exit code {}", exit_code(ErrorCode::kUnavailable)));
  EXPECT_EQ(pids(), (std::vector<int>{workers_[0].pid(), workers_[2].pid()}));
}

TEST_F(Spares, OfAKeeperComeBehindOneThatLostItsDevice) {
  options_.spares = 0;
  begin({"--keep"});
  const std::vector<int> before = pids();
  crew_->send(1, {"lose a kernel went astray"});
  EXPECT_THAT(end_of(*crew_).message(), HasSubstr("its device failed: cuda:7: a kernel"));
  crew_->restart();
  EXPECT_NE(pids()[1], before[1]);
  EXPECT_THAT(parent_of(pids()[1]), testing::AnyOf(workers_[0].pid(), workers_[1].pid()));
  expect_work();
  crew_->stop();
  for (Process& keeper : workers_) EXPECT_EQ(keeper.wait(after(5s)), "exit code 0");
}

TEST_F(Spares, EndWithTheirKeepers) {
  begin({"--keep"});
  kill_one();
  crew_->restart();  // now one of them is a process that began again
  const int worker = pids()[0];
  workers_.clear();  // kills
  EXPECT_THAT(end_of(*crew_).message(), HasSubstr("connection broke"));
  EXPECT_THAT(state_of(worker).first, testing::AnyOf('X', 'Z'));
}

TEST_F(Spares, OfAKeeperWaitForTheNextSchedulerBehindOneThatWasKilled) {
  int told[2];
  ASSERT_EQ(::pipe2(told, O_CLOEXEC), 0);
  const pid_t scheduler = ::fork();
  if (scheduler == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      const auto crew = tests::assemble_anywhere(
          options_, [&](const std::string& address) { tests::write_line(told[1], address); });
      for (const WorkerInfo& info : crew->workers())
        tests::write_line(told[1], std::to_string(info.pid));
      while (true) static_cast<void>(crew->next(after(1s)));
    } catch (const std::exception&) {
      ::_exit(1);
    }
  }
  ::close(told[1]);
  address_ = tests::read_line(told[0]);
  for (int i = 0; i < 2; ++i) workers_.push_back(start_worker({"--keep"}));
  std::vector<int> before(2);
  for (int& pid : before) pid = std::stoi(tests::read_line(told[0]));
  ::close(told[0]);
  std::this_thread::sleep_for(500ms);  // so that they know that they are welcome
  ::kill(scheduler, SIGKILL);
  ::waitpid(scheduler, nullptr, 0);
  options_.listen = address_;
  crew_ = Crew::assemble(options_);  // once they have given the other up
  crew_->start("words", {"", ""}, {{{}, {}}, {{}, {}}});
  EXPECT_THAT(pids(),
              testing::Each(testing::AllOf(testing::Ne(before[0]), testing::Ne(before[1]))));
  expect_work();
  crew_->stop();
  for (Process& keeper : workers_) EXPECT_EQ(keeper.wait(after(5s)), "exit code 0");
}

TEST_F(Spares, OfAKeeperEndItAsTheyEndThemselves) {
  begin();
  Process spare = start_worker({"--keep"});
  EXPECT_FALSE(crew_->next(after(500ms)));
  Process surplus = start_worker({"--keep"});
  for (const auto end = after(5s); !surplus.ended() && Clock::now() < end;)
    EXPECT_FALSE(crew_->next(after(200ms)));
  EXPECT_EQ(surplus.exit_code(), exit_code(ErrorCode::kUnavailable));
  EXPECT_FALSE(spare.ended());
}

TEST_F(Spares, OfAKeeperThatIgnoresItsChildrenAreNotStartedForEver) {
  options_.workers = 1;
  assemble([&] {
    workers_.push_back(Process::spawn({"/bin/sh", "-c", "trap '' CHLD; exec \"$0\" \"$@\"",
                                       KERF_TEST_WORKER, "--connect", address_, "--keep"}));
  });
  crew_->start("words", {""}, {{{}}});
  crew_->stop();
  EXPECT_EQ(workers_[0].wait(after(5s)), "exit code 0");
}

TEST_F(Spares, TakeWhatPlaceThereIsWhereWishesDoNotBind) {
  options_.wishes_bind = false;
  assemble([&] {
    for (const char* index : {"2", "1"}) workers_.push_back(start_worker({"--index", index}));
  });
  EXPECT_EQ(pids(), (std::vector<int>{workers_[0].pid(), workers_[1].pid()}));
}

}  // namespace
}  // namespace kerf::runtime
