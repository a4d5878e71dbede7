// Philox4x32-10 and the words of a stream (random.h), for every kind of device: pure functions that
// a compiler of kernels takes as they are.
#pragma once

#include <array>
#include <cstdint>

namespace kerf::ops {

// Four 32-bit numbers.
struct Words {
  uint32_t of[4];
};

constexpr Words philox_words(Words counter, uint32_t key_0, uint32_t key_1) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53U;
  constexpr uint64_t kMultiplier1 = 0xCD9E8D57U;
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = kMultiplier0 * counter.of[0];
    const uint64_t b = kMultiplier1 * counter.of[2];
    counter = {{static_cast<uint32_t>(b >> 32U) ^ counter.of[1] ^ key_0, static_cast<uint32_t>(b),
                static_cast<uint32_t>(a >> 32U) ^ counter.of[3] ^ key_1, static_cast<uint32_t>(a)}};
    key_0 += 0x9E3779B9U;  // the golden ratio
    key_1 += 0xBB67AE85U;  // the square root of 3, less 1
  }
  return counter;
}

// A RandomKey made ready: what all blocks of its stream have in common.
struct RandomStream {
  uint32_t key_0 = 0;
  uint32_t key_1 = 0;
  uint32_t step = 0;
  uint32_t micro_batch = 0;

  constexpr Words block(uint64_t number) const {
    return philox_words(
        {{static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32U), step, micro_batch}},
        key_0, key_1);
  }
  // Uniform in [0, 1) with 24 bits, for the element with this global index.
  constexpr float uniform(uint64_t index) const {
    const uint32_t word = block(index / 4).of[index % 4];
    return static_cast<float>(static_cast<int32_t>(word >> 8U)) * 0x1p-24F;
  }
};

}  // namespace kerf::ops
