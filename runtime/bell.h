// A bell: an eventfd that wakes a thread out of poll().
//
// Whoever polls owns it; ring() is thread- and signal-safe.
#pragma once

#include <optional>
#include <vector>

#include "runtime/time.h"

namespace kerf::runtime {

class Bell {
 public:
  Bell();
  ~Bell();
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  void ring() noexcept;
  // Whether it was rung since the last call.
  bool rung() noexcept;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// Blocks until one of `descriptors` is readable, a signal arrives or the deadline passes.
void poll_readable(const std::vector<int>& descriptors, Deadline deadline);

}  // namespace kerf::runtime
