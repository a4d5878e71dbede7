// A request to stop, usually Ctrl-C: raised once, from any thread or signal handler, and seen by
// whoever waits.
#pragma once

#include <atomic>

#include "runtime/event_fd.h"

namespace kerf::runtime {

class Interrupt {
 public:
  // Thread- and signal-safe.
  void raise() noexcept {
    raised_.store(true, std::memory_order_release);
    event_.signal();
  }
  bool raised() const noexcept { return raised_.load(std::memory_order_acquire); }
  // Readable once raised.
  int descriptor() const { return event_.descriptor(); }

 private:
  static_assert(std::atomic<bool>::is_always_lock_free);
  std::atomic<bool> raised_{false};
  EventFd event_;
};

}  // namespace kerf::runtime
