// Runs that are stopped (SIGSTOP), as a whole or only their scheduler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "runtime/crew.h"
#include "runtime/process.h"
#include "tests/runtime/crew_of_words.h"
#include "tests/support/test_worker.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

void start_workers(Crew& crew, size_t workers) {
  crew.start("words", std::vector<std::string>(workers),
             {workers, std::vector<std::vector<Lane>>(workers, {{.slot_bytes = 64, .slots = 1}})});
}

using UnderWay = std::function<void(const std::string& where)>;

// A scheduler in a process group of its own, which its workers belong to.
class Scheduler {
 public:
  // `serve` runs in it; it ends with code 0 unless that throws, and `under_way` is called by it.
  explicit Scheduler(const std::function<void(const UnderWay&)>& serve) {
    EXPECT_EQ(::pipe(report_), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      try {
        serve([this](const std::string& where) { tests::write_line(report_[1], "at " + where); });
      } catch (const std::exception& error) {
        std::fprintf(stderr, "scheduler: %s\n", error.what());
        ::_exit(1);
      }
      ::_exit(0);
    }
    ::close(report_[1]);  // so that reading ends if the scheduler does
    const std::string told = tests::read_line(report_[0]);
    EXPECT_TRUE(told.starts_with("at ")) << "the scheduler did not get so far";
    address_ = told.substr(std::min<size_t>(told.size(), 3));
  }
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler() {
    ::close(report_[0]);
    if (ended_) return;
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  // What it says by another call of `under_way`.
  std::string hear() const { return tests::read_line(report_[0]); }
  // Where it listens, if it said so.
  const std::string& address() const { return address_; }
  void signal_all(int signal) const { ::kill(-pid_, signal); }
  void signal_it(int signal) const { ::kill(pid_, signal); }
  int exit_code() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  int report_[2] = {-1, -1};
  std::string address_;
  pid_t pid_ = -1;
  bool ended_ = false;
};

class StoppedRun : public testing::TestWithParam<TransportKind> {};

// Longer than anybody may be silent.
TEST_P(StoppedRun, GoesOn) {
  Scheduler scheduler([](const UnderWay& under_way) {
    const auto crew = Crew::assemble(tests::crew_options(GetParam(), 3, KERF_TEST_WORKER));
    start_workers(*crew, 3);
    crew->send(0, {"receive 1"});
    crew->send(1, {"sleep 500", "send 0 good morning"});
    under_way("");
    std::vector<std::string> results;
    while (results.size() < 3)
      if (const auto batch = crew->next(after(1s)))
        results.insert(results.end(), batch->results.begin(), batch->results.end());
    std::sort(results.begin(), results.end());
    if (results != std::vector<std::string>{"good morning", "sent", "slept"}) ::_exit(2);
    crew->stop();
  });
  std::this_thread::sleep_for(100ms);
  scheduler.signal_all(SIGSTOP);
  std::this_thread::sleep_for(4s);
  scheduler.signal_all(SIGCONT);
  EXPECT_EQ(scheduler.exit_code(), 0);
}

// Its thread is not with the crew when it is stopped and when it goes on.
TEST_P(StoppedRun, GoesOnThoughItsSchedulerWasBusy) {
  Scheduler scheduler([](const UnderWay& under_way) {
    const auto crew = Crew::assemble(tests::crew_options(GetParam(), 2, KERF_TEST_WORKER));
    start_workers(*crew, 2);
    crew->send(0, {"sleep 1000"});
    under_way("");
    for (int i = 0; i < 10; ++i) std::this_thread::sleep_for(100ms);
    if (!crew->next(after(5s))) ::_exit(2);
    crew->stop();
  });
  std::this_thread::sleep_for(300ms);
  scheduler.signal_all(SIGSTOP);
  std::this_thread::sleep_for(4s);
  scheduler.signal_all(SIGCONT);
  EXPECT_EQ(scheduler.exit_code(), 0);
}

INSTANTIATE_TEST_SUITE_P(Over, StoppedRun,
                         testing::Values(TransportKind::kInproc, TransportKind::kShm,
                                         TransportKind::kTcp),
                         [](const auto& instance) {
                           return std::string(to_string(instance.param));
                         });

// Who waits for a peer is woken for it; that it was woken is not the cause.
TEST(LostScheduler, IsWhatItsWorkersTell) {
  testing::internal::CaptureStderr();
  std::vector<std::string> ends;
  {
    Scheduler scheduler([&](const UnderWay& under_way) {
      const auto crew = tests::assemble_anywhere(
          tests::crew_options(TransportKind::kTcp, 3, KERF_TEST_WORKER), under_way);
      start_workers(*crew, 3);
      crew->send(0, {"receive 1"});
      crew->send(1, {"sleep 60000"});
      under_way("work");
      while (true) static_cast<void>(crew->next(after(1s)));
    });
    std::vector<Process> workers;
    for (const char* index : {"0", "1", "2"})
      workers.push_back(
          Process::spawn({KERF_TEST_WORKER, "--connect", scheduler.address(), "--index", index}));
    EXPECT_EQ(scheduler.hear(), "at work");
    std::this_thread::sleep_for(500ms);  // until they are, too
    scheduler.signal_it(SIGSTOP);
    for (auto& worker : workers) ends.push_back(worker.wait(after(10s)).value_or("no end"));
  }
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(ends, testing::Each(std::string("exit code 1")));
  size_t times = 0;
  for (size_t at = told.find("has been silent for 3.0 s"); at != std::string::npos;
       at = told.find("has been silent for 3.0 s", at + 1))
    ++times;
  EXPECT_EQ(times, 3u) << told;
  EXPECT_THAT(told, testing::Not(HasSubstr("interrupted")));
}

}  // namespace
}  // namespace kerf::runtime
