// The thread of its own that a ProgressEngine has: it sleeps in the kernel until packets may be
// there or it is time, and then makes a round.
//
// Owned by a ProgressEngine, whose lock guards all calls but stop(). Signals are for other threads.
#pragma once

#include <functional>
#include <thread>

#include "runtime/epoll.h"
#include "runtime/event_fd.h"
#include "runtime/time.h"
#include "runtime/timer_fd.h"

namespace kerf::runtime {

class DataThread {
 public:
  // `packets` is readable when packets may be there. `round` does not throw. Throws
  // Error{kUnavailable} if the kernel has no descriptors left.
  DataThread(int packets, std::function<void()> round);
  ~DataThread() { stop(); }
  DataThread(const DataThread&) = delete;
  DataThread& operator=(const DataThread&) = delete;

  // Waits for the round under way, which may want the lock; none comes after it. What rounds use
  // must still be there, this object included.
  void stop();

  // First of a round: time that was asked for has come.
  void begin_round();
  // A round at `when` or before. A system call, unless a round by then was asked for already.
  void wake_by(Clock::time_point when);
  // No round but for packets until the next wake_by().
  void forget_time();
  // Whether packets begin a round, not at first. A system call where that changes.
  void listen(bool on);
  bool listens() const { return listens_; }

 private:
  void run(const std::stop_token& stop);

  const int packets_;
  const std::function<void()> round_;
  const TimerFd timer_;
  const Epoll poll_;
  EventFd stop_;
  Clock::time_point wake_ = Clock::time_point::max();
  bool listens_ = false;
  std::jthread thread_;  // the last: it uses all the others
};

}  // namespace kerf::runtime
