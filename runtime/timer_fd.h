// A descriptor that becomes readable at a time.
//
// Belongs to whoever polls it; set() and clear() with his lock.
#pragma once

#include "runtime/open_file.h"
#include "runtime/time.h"

namespace kerf::runtime {

class TimerFd {
 public:
  // Throws Error{kUnavailable} if the kernel has no descriptors left.
  TimerFd();
  int descriptor() const { return file_.number(); }
  // Readable from `when` on, in place of what was set before.
  void set(Clock::time_point when) const;
  void clear() const;
  // Not readable until the next set().
  void take() const;

 private:
  OpenFile file_;
};

}  // namespace kerf::runtime
