// How far a search over ideals goes before it is content with less than a proof. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kerf::partitioner {

struct SearchEffort {
  size_t ideals = 20'000;       // that are enumerated, at most
  int64_t visits = 30'000'000;  // steps of each search over them, at most
};
// Proves what takes minutes to prove.
inline constexpr SearchEffort kCertifyingEffort{2'000'000, 20'000'000'000};

}  // namespace kerf::partitioner
