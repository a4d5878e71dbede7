// How a PacketSocket waits: until its descriptor tells of something, wake() ends this wait or the
// next, or interrupt() this and every later one.
//
// Owned by a PacketSocket. wake(), interrupt() and check() are thread-safe.
#pragma once

#include <atomic>
#include <string>

#include "runtime/event_fd.h"
#include "runtime/time.h"

namespace kerf::runtime {

class PacketWait {
 public:
  // Until `descriptor` is readable, wake(), interrupt(), a signal, or `deadline`.
  void until_readable(int descriptor, Deadline deadline);
  void wake() { woken_.signal(); }
  void interrupt();
  bool is_interrupted() const { return interrupted_.load(std::memory_order_relaxed); }
  // Throws Error{kInterrupted} of `label` after interrupt().
  void check(const std::string& label) const;

 private:
  std::atomic<bool> interrupted_{false};
  EventFd event_;
  EventFd woken_;
};

}  // namespace kerf::runtime
