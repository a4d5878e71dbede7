// An eventfd that wakes a thread out of poll().
//
// Whoever polls owns it; signal() is thread- and signal-safe.
#pragma once

#include <optional>
#include <vector>

#include "runtime/time.h"

namespace kerf::runtime {

class EventFd {
 public:
  EventFd();
  ~EventFd();
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;

  void signal() noexcept;
  // Whether it was signalled since the last call.
  bool taken() noexcept;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// Blocks until one of `descriptors` is readable, a signal arrives or the deadline passes.
void poll_readable(const std::vector<int>& descriptors, Deadline deadline);

}  // namespace kerf::runtime
