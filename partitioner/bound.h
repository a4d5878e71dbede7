// What a bottleneck is measured against.
#pragma once

#include <optional>
#include <string>

namespace kerf::partitioner {

// No plan of the same kind has a lower bottleneck than `value`.
struct Bound {
  double value = 0;
  std::string witness;  // why: "node conv2 alone", "all work over 4 stages"
};

// Why a plan's bottleneck has its bound: told of a plan that was just made. Words about a plan that
// are no part of it: no two plans differ by them, and its text leaves them out.
struct Witness {
  std::string text;
  bool operator==(const Witness&) const { return true; }
};

// The gap to it; 0 where the bound is not positive.
inline double gap_of(double bottleneck, double bound) {
  return bound > 0 ? bottleneck / bound - 1 : 0;
}
// The gap, where there is a bound that tells of one.
inline std::optional<double> known_gap(double bottleneck, std::optional<double> bound) {
  if (bound.value_or(0) <= 0) return std::nullopt;
  return gap_of(bottleneck, *bound);
}
// A bottleneck that its bound proves to be the least there is.
inline bool is_exact(double bottleneck, double bound) { return bottleneck <= bound * (1 + 1e-9); }

}  // namespace kerf::partitioner
