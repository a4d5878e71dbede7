// The workers of a run on other hosts, each started by a process of ssh and tied to it.
//
// The run makes it before its crew and destroys it after that; it outlives no run. A thread of its
// own, the relay, starts the ssh, shows what each prints behind its host's name, and notices ends.
// One that ends before all workers are here ends the run: `end` is raised, and failure() says why.
// Behind the loss of a worker, start() lets those that ended begin again; a worker that is left
// does so within its ssh. A host that cannot be reached then is tried again and again, until the
// crew waits no longer: it may be on its way up.
//
// Threads: everything is called by the crew's thread.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "apps/main/host_list.h"
#include "runtime/error.h"
#include "runtime/interrupt.h"
#include "runtime/open_file.h"
#include "runtime/process.h"

namespace kerf::apps {

struct RemoteOptions {
  std::string ssh = "ssh";       // a path, or a name that PATH finds
  std::string kerf;              // the executable, where a host's line does not say another
  std::string keys = {};         // likewise; empty: the run has none
  int workers = 1;               // hosts before it have these numbers; further ones are spares
  bool others_may_come = false;  // where one of a worker that was lost cannot be started again
};

// What ssh is told to run for host `number` of the list.
std::vector<std::string> ssh_command(const RemoteHost& host, int number, const std::string& address,
                                     const RemoteOptions& options);

class RemoteWorkers {
 public:
  RemoteWorkers(std::vector<RemoteHost> hosts, RemoteOptions options,
                std::shared_ptr<runtime::Interrupt> end);
  RemoteWorkers(const RemoteWorkers&) = delete;
  RemoteWorkers& operator=(const RemoteWorkers&) = delete;
  // Ends those that are left; the workers end as their scheduler is gone.
  ~RemoteWorkers();

  // The run listens at `address`, for the first time or again.
  void start(const std::string& address);
  // Told of each that comes: once all are here, one that ends is the loss of a worker, which the
  // crew judges.
  void are_here(int workers);
  // Waits for those that are left, whose workers were told to leave.
  void let_leave();
  std::optional<Error> failure() const;

 private:
  enum class Phase { kIdle, kStarting, kRunning, kLeaving };
  struct Line {
    RemoteHost host;
    int number = 0;
    int round = 0;  // of start() that it was last started in
    runtime::Clock::time_point not_before = {};
    int tries = 0;       // in that round
    bool waits = false;  // to be tried again in it
    std::optional<runtime::Process> ssh = {};
    runtime::OpenFile output{-1};
    std::string unfinished = {};  // what it printed of a line
    std::string last_words = {};
  };

  void relay(const std::stop_token& stop);
  void wait_for_news() const;
  void start_missing();
  bool is_to_start(const Line& line) const;
  bool may_come_again(const Line& line, const std::string& how) const;
  void launch(Line& line, const std::string& address);
  void show_output(Line& line);
  void show(Line& line, const std::string& text);
  void note_end(Line& line, const std::string& how);
  void fail(Error error);

  std::vector<Line> lines_;  // the relay's
  const RemoteOptions options_;
  const std::shared_ptr<runtime::Interrupt> end_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable all_ended_;
  Phase phase_ = Phase::kIdle;
  int round_ = 0;  // start() was called so often
  std::string address_;
  int here_ = 0;  // workers, in this round
  size_t running_ = 0;
  std::optional<Error> failure_;
  mutable runtime::EventFd news_;
  std::jthread relay_;
};

}  // namespace kerf::apps
