// How far a search goes: over ideals, before it is content with less than a proof; and from the
// least, to save bytes. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/error.h"

namespace kerf::partitioner {

inline constexpr double kMostSlack = 100;  // so many times the least and one more
// Throws Error{kUsage} for what is no slack.
inline void check_slack(double slack) {
  if (!(slack >= 0 && slack <= kMostSlack))
    throw Error(ErrorCode::kUsage, format("--slack {}: is not within 0 and {}", slack, kMostSlack));
}

struct SearchEffort {
  size_t ideals = 20'000;      // that are enumerated, at most
  int64_t visits = 3'000'000;  // steps of each search over them, at most
};
// Proves what takes minutes to prove.
inline constexpr SearchEffort kCertifyingEffort{2'000'000, 20'000'000'000};

}  // namespace kerf::partitioner
