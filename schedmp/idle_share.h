// The share of a time that nothing is done in. Pure.
#pragma once

#include <algorithm>

namespace kerf::schedmp {

// In [0, 1]: work that was summed up in another order than the time may exceed it by its last
// digits. 0 of no time.
inline double idle_share(double work, double time) {
  return time > 0 ? std::max(0.0, 1 - work / time) : 0;
}

}  // namespace kerf::schedmp
