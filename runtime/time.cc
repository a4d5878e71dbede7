#include "runtime/time.h"

#include <algorithm>
#include <limits>

namespace kerf::runtime {

int milliseconds_left(Deadline deadline) {
  const Clock::time_point now = Clock::now();
  if (deadline <= now) return 0;
  const int64_t left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<int>(std::min<int64_t>(left, std::numeric_limits<int>::max()));
}

}  // namespace kerf::runtime
