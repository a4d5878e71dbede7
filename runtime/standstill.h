// A standstill: time in which this process did not run, because it was stopped (SIGSTOP, a
// suspended machine) or got no turn. Who judges others by how long they were silent takes it off:
// nobody can be heard by a process that stands still, and mostly they stood still with it.
//
// Plain values and pure functions; a Standstill belongs to one thread or to whoever guards it.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "runtime/time.h"

namespace kerf::runtime {

class Standstill {
 public:
  // look() will be called at least every `every`.
  explicit Standstill(Clock::duration every, Clock::time_point now = Clock::now())
      : every_(every), looked_(now) {}

  // How long the process stood still since the last look; zero for a delay of less than half a
  // second, which a busy host explains.
  Clock::duration look(Clock::time_point now = Clock::now());
  // The time of this process: the clock's less all standstills that were seen.
  Clock::time_point own_time(Clock::time_point now = Clock::now()) const { return now - total_; }

 private:
  Clock::duration every_;
  Clock::time_point looked_;
  Clock::duration total_{};
};

// `deadline` moved on by what a process stood still; Deadline::max() stays.
Deadline postponed(Deadline deadline, Clock::duration by);

// As std::condition_variable::wait_until, but a standstill does not count against the deadline.
template <class Done>
bool wait_running(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                  Deadline deadline, Done done) {
  if (done()) return true;
  constexpr std::chrono::milliseconds kLook{500};
  Standstill still(kLook);
  while (!changed.wait_until(lock, std::min(deadline, after(kLook)), done)) {
    deadline = postponed(deadline, still.look());
    if (Clock::now() >= deadline) return done();
  }
  return true;
}

}  // namespace kerf::runtime
