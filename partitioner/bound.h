// What a bottleneck is measured against.
#pragma once

#include <cstdint>
#include <string>

namespace kerf::partitioner {

// No plan of the same kind has a lower bottleneck than `value`.
struct Bound {
  double value = 0;
  std::string witness;  // why: "node conv2 alone", "all work over 4 stages"
};

// The gap to it; 0 where the bound is not positive.
inline double gap_of(double bottleneck, double bound) {
  return bound > 0 ? bottleneck / bound - 1 : 0;
}
// A bottleneck that its bound proves to be the least there is.
inline bool is_exact(double bottleneck, double bound) { return bottleneck <= bound * (1 + 1e-9); }

// The least cap that fits, where `fits` failed at `fails` and succeeded at `enough`: `fits` is true
// of the result and, below 1 GiB, false of one byte less.
template <class Fits>
int64_t least_that_fits(int64_t fails, int64_t enough, const Fits& fits) {
  while (enough - fails > 1 + (enough >> 30)) {
    const int64_t middle = fails + (enough - fails) / 2;
    (fits(middle) ? enough : fails) = middle;
  }
  return enough;
}

}  // namespace kerf::partitioner
