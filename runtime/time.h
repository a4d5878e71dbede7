// Clocks and deadlines. All times are nanoseconds of CLOCK_MONOTONIC of this host.
#pragma once

#include <chrono>
#include <cstdint>

namespace kerf::runtime {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

inline Deadline after(Clock::duration duration) { return Clock::now() + duration; }
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}
// Milliseconds left, rounded up, at least 0: what poll() wants.
int milliseconds_left(Deadline deadline);

}  // namespace kerf::runtime
