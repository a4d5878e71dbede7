// Random numbers keyed by what they are for, never by when or where they are drawn.
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC'11):
// a counter-based generator, so element i of a stream is a pure function of (key, i) and any worker
// can draw any element. Thread-safe; no state.
//
// The words of a stream. With lo and hi the 32-bit halves of a 64-bit number,
//   k = philox({purpose, hi(step), 0x6b657266, 0}, {lo(seed), hi(seed)})
//   block b = philox({lo(b), hi(b), lo(step), micro_batch}, {k[0], k[1]})
// and element i of the stream draws from word i % 4 of block i / 4.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/philox.h"

namespace kerf::ops {

// Four 32-bit numbers for a 128-bit counter under a 64-bit key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

struct RandomKey {
  uint64_t seed = 0;
  uint32_t purpose = 0;  // what for: the node's number, or one of the purposes below
  int64_t step = 0;
  int32_t micro_batch = 0;
};

// Purposes that are no nodes: the parameter's number is added to the first.
inline constexpr uint32_t kParameterPurpose = 0x80000000U;
inline constexpr uint32_t kPermutationPurpose = 0x7fffffffU;
inline constexpr uint32_t kSamplingPurpose = 0x7ffffffeU;  // draws by priority

RandomStream stream_of(const RandomKey& key);

// Uniform in [0, 1) with 24 bits, for the element with this global index: (word >> 8) / 2^24.
float uniform(const RandomKey& key, int64_t index);
// Standard normal (Box-Muller). Elements 2j and 2j + 1 share their two words u, v: with
// r = sqrt(-2 ln(((u >> 8) + 1) / 2^24)) and t = 2 pi (v >> 8) / 2^24 they are r cos t and r sin t,
// in float arithmetic that is the same on every machine, accurate to 1e-6.
float normal(const RandomKey& key, int64_t index);
// The same numbers for consecutive elements from `first` on; several times faster.
void fill_uniform(const RandomKey& key, int64_t first, std::span<float> to);
void fill_normal(const RandomKey& key, int64_t first, std::span<float> to);

// A permutation of 0..count-1, count at most 2^32: Fisher-Yates from the last element down. The
// draw for position i is word 0 of block i of the stream {seed, kPermutationPurpose, epoch, 0},
// reduced by multiply-shift:
//   order = [0, 1, ..., count - 1]
//   for i = count - 1 down to 1: swap order[i], order[(word * (i + 1)) >> 32]
std::vector<int64_t> permutation(int64_t count, uint64_t seed, int64_t epoch);

}  // namespace kerf::ops
