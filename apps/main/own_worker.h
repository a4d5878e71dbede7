// The worker that the first task of a launcher keeps beside the scheduler (launched.h): a keeper
// (runtime/keeper.h) that is a child of this process, and ends with it.
//
// One that has ended while workers are waited for ends the run, as no launcher starts another:
// `end` is raised, and failure() says why. A thread of its own notices.
//
// Threads: everything is called by the crew's thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "runtime/error.h"
#include "runtime/event_fd.h"
#include "runtime/interrupt.h"
#include "runtime/process.h"

namespace kerf::apps {

class OwnWorker {
 public:
  // Starts it, so no ZeroMQ context may exist; `others_may_come`: behind a loss a spare takes its
  // place. Throws Error{kUnavailable}.
  OwnWorker(const std::vector<std::string>& command, bool others_may_come,
            std::shared_ptr<runtime::Interrupt> end);
  OwnWorker(const OwnWorker&) = delete;
  OwnWorker& operator=(const OwnWorker&) = delete;
  // Ends it.
  ~OwnWorker();

  // The run waits for workers, at its beginning or `again`, behind a loss.
  void awaited(bool again);
  // From now on its end is the loss of a worker, which the crew judges.
  void all_are_here();
  std::optional<Error> failure() const;
  bool has_ended() const;

 private:
  void watch(const std::stop_token& stop);
  void fail_if_missed();

  runtime::Process keeper_;
  const bool others_may_come_;
  const std::shared_ptr<runtime::Interrupt> end_;
  mutable std::mutex mutex_;  // of what follows
  bool missed_ = false;       // where it ends, or has ended
  std::optional<std::string> how_;
  std::optional<int> code_;
  std::optional<Error> failure_;
  runtime::EventFd stopped_;
  std::jthread watch_;
};

}  // namespace kerf::apps
