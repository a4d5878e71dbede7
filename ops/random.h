// Random numbers keyed by what they are for, never by when or where they are drawn.
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC'11): a
// counter-based generator, so element i of a stream is a pure function of (key, i) and any worker can
// draw any element. Thread-safe; no state.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace kerf::ops {

// Four 32-bit numbers for a 128-bit counter under a 64-bit key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// One stream: (seed, purpose) is Philox's key after mixing, (a, b) and the index its counter.
struct RandomKey {
  uint64_t seed = 0;
  uint32_t purpose = 0;      // what for: the node or parameter number
  int64_t step = 0;
  int32_t micro_batch = 0;
};

// Uniform in [0, 1) with 24 bits, for the element with this global index.
float uniform(const RandomKey& key, int64_t index);
// Standard normal (Box-Muller).
float normal(const RandomKey& key, int64_t index);
// A permutation of 0..count-1 (Fisher-Yates from the last element down; the draw for position i is
// philox word 0 of counter i, reduced by multiply-shift).
std::vector<int64_t> permutation(int64_t count, uint64_t seed, int64_t epoch);

}  // namespace kerf::ops
