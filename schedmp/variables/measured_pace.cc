#include "schedmp/variables/measured_pace.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "runtime/time.h"

namespace kerf::schedmp {

double measured_pace(const std::function<void()>& piece) {
  double fastest = std::numeric_limits<double>::infinity();
  for (int go = 0; go < kGoes; ++go) {
    const auto begin = runtime::Clock::now();
    double seconds = 0;
    int pieces = 0;
    do {
      piece();
      ++pieces;
      seconds = std::chrono::duration<double>(runtime::Clock::now() - begin).count();
    } while (seconds < kSecondsOfGo);
    fastest = std::min(fastest, seconds / pieces);
  }
  return fastest;
}

}  // namespace kerf::schedmp
