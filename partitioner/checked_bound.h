// A bound as a plan tells it. A pure function.
#pragma once

#include <algorithm>
#include <string>

#include "partitioner/bound.h"
#include "runtime/error.h"

namespace kerf::partitioner {

// Sums of the same figures in another order differ by rounding, so that a bound may be that little
// above its plan, and is the plan's bottleneck then. More is a proof that proves too much.
inline Bound checked_bound(Bound bound, double bottleneck, const std::string& graph) {
  constexpr double kRounding = 1e-6;
  KERF_CHECK(bound.value <= bottleneck * (1 + kRounding),
             "{}: a bottleneck of {}, where {} says that none is below {}", graph, bottleneck,
             bound.witness, bound.value);
  bound.value = std::min(bound.value, bottleneck);
  return bound;
}

}  // namespace kerf::partitioner
