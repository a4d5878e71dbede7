// A request to stop, usually Ctrl-C: raised once, from any thread or signal handler, and seen by
// whoever waits. Where somebody heeds it who has something to finish first, it is asked for, and
// raised only if that takes too long.
#pragma once

#include <atomic>

#include "runtime/event_fd.h"

namespace kerf::runtime {

class Interrupt {
 public:
  // These are thread- and signal-safe.
  void ask() noexcept {
    asked_ = true;
    if (!heeded_) raise();
  }
  bool asked() const noexcept { return asked_; }
  // Whether somebody looks at asked() by and by, and ends then.
  void heed(bool heeded) noexcept { heeded_ = heeded; }
  void raise() noexcept {
    raised_.store(true, std::memory_order_release);
    event_.signal();
  }
  bool raised() const noexcept { return raised_.load(std::memory_order_acquire); }
  // Readable once raised.
  int descriptor() const { return event_.descriptor(); }

 private:
  static_assert(std::atomic<bool>::is_always_lock_free);
  std::atomic<bool> asked_{false};
  std::atomic<bool> heeded_{false};
  std::atomic<bool> raised_{false};
  EventFd event_;
};

}  // namespace kerf::runtime
