// What a bottleneck is measured against.
#pragma once

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

}  // namespace kerf::partitioner
