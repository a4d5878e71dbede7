#include "ops/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>

#include "ops/simd/simd.h"
#include "runtime/error.h"

namespace kerf::ops {
namespace {

constexpr uint32_t kKeyTag = 0x6b657266U;  // "kerf": keeps the counters of keys apart from others

uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32U); }

constexpr float kUnit = 0x1p-24F;

// Of a number of at most 24 bits, exactly; vectors convert signed integers only.
float to_float(uint32_t number) { return static_cast<float>(static_cast<int32_t>(number)); }

KERF_CLONES void uniforms(std::span<const uint32_t> words, float* to) {
#pragma omp simd
  for (size_t i = 0; i < words.size(); ++i) to[i] = to_float(words[i] >> 8U) * kUnit;
}

// The elementary functions of Box and Muller are Kerf's own: a mathematical library rounds as its
// version and the instruction set please, sums, products and square roots are the same everywhere.
// They are good to a few units in the last place and, inlined, vectorise.

// ln(k / 2^24) for k in 1..2^24: exponent and mantissa apart, then the series of 2 artanh.
[[gnu::always_inline]] inline float log_of_unit(uint32_t k) {
  const auto bits = std::bit_cast<uint32_t>(to_float(k));
  // Counted from sqrt(1/2), so that the mantissa lies in [sqrt(1/2), sqrt(2)).
  const uint32_t shifted = bits - 0x3f3504f3U;
  const auto exponent = static_cast<float>((static_cast<int32_t>(shifted) >> 23) - 24);
  const auto mantissa = std::bit_cast<float>((shifted & 0x007fffffU) + 0x3f3504f3U);
  const float s = (mantissa - 1) / (mantissa + 1);
  const float q = s * s;
  const float series = q * (1.0F / 3 + q * (1.0F / 5 + q * (1.0F / 7 + q * (1.0F / 9))));
  return exponent * std::numbers::ln2_v<float> + 2 * (s + s * series);
}

struct Direction {
  float cosine = 0;
  float sine = 0;
};

// Of the angle 2 pi turn / 2^24: the nearest quarter turn, and Taylor's series for the rest.
[[gnu::always_inline]] inline Direction direction(uint32_t turn) {
  const auto quarter = static_cast<int32_t>((turn + (1U << 21U)) >> 22U);
  const auto rest = static_cast<float>(static_cast<int32_t>(turn) - (quarter << 22));
  const float x = rest * (std::numbers::pi_v<float> / 2 * 0x1p-22F);
  const float q = x * x;
  const float sine =
      x + x * q * (-1.0F / 6 + q * (1.0F / 120 + q * (-1.0F / 5040 + q * (1.0F / 362880))));
  const float cosine = 1 + q * (-0.5F + q * (1.0F / 24 + q * (-1.0F / 720 + q * (1.0F / 40320))));
  const float a = (quarter & 1) != 0 ? sine : cosine;
  const float b = (quarter & 1) != 0 ? cosine : sine;
  return {((quarter + 1) & 2) != 0 ? -a : a, (quarter & 2) != 0 ? -b : b};
}

KERF_CLONES void normals(std::span<const uint32_t> words, float* to) {
#pragma omp simd
  for (size_t i = 0; i < words.size() / 2; ++i) {
    const float radius = std::sqrt(-2 * log_of_unit((words[2 * i] >> 8U) + 1));
    const Direction towards = direction(words[2 * i + 1] >> 8U);
    to[2 * i] = radius * towards.cosine;
    to[2 * i + 1] = radius * towards.sine;
  }
}

// Elements `first` and on of the numbers that `make` makes of the words, some blocks at a time.
template <class Make>
void fill(const RandomKey& key, int64_t first, std::span<float> to, const Make& make) {
  constexpr size_t kMost = 64;  // words at a time
  const RandomStream stream = stream_of(key);
  auto block = static_cast<uint64_t>(first) / 4;
  size_t skip = static_cast<uint64_t>(first) % 4;
  std::array<uint32_t, kMost> words{};
  std::array<float, kMost> numbers{};
  for (size_t done = 0; done < to.size();) {
    const size_t drawn = std::min((skip + to.size() - done + 3) / 4 * 4, kMost);
    for (size_t i = 0; i < drawn; i += 4) {
      const Words four = stream.block(block++);
      std::copy_n(four.of, 4, words.begin() + i);
    }
    make(std::span<const uint32_t>(words.data(), drawn), numbers.data());
    const size_t count = std::min(drawn - skip, to.size() - done);
    std::copy_n(numbers.begin() + skip, count, to.begin() + static_cast<ptrdiff_t>(done));
    done += count;
    skip = 0;
  }
}

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  const Words words =
      philox_words({{counter[0], counter[1], counter[2], counter[3]}}, key[0], key[1]);
  return {words.of[0], words.of[1], words.of[2], words.of[3]};
}

RandomStream stream_of(const RandomKey& key) {
  const Words mixed =
      philox_words({{key.purpose, high(static_cast<uint64_t>(key.step)), kKeyTag, 0}},
                   low(key.seed), high(key.seed));
  return {mixed.of[0], mixed.of[1], low(static_cast<uint64_t>(key.step)),
          static_cast<uint32_t>(key.micro_batch)};
}

float uniform(const RandomKey& key, int64_t index) {
  float number = 0;
  fill_uniform(key, index, {&number, 1});
  return number;
}

float normal(const RandomKey& key, int64_t index) {
  float number = 0;
  fill_normal(key, index, {&number, 1});
  return number;
}

void fill_uniform(const RandomKey& key, int64_t first, std::span<float> to) {
  fill(key, first, to, uniforms);
}

void fill_normal(const RandomKey& key, int64_t first, std::span<float> to) {
  fill(key, first, to, normals);
}

std::vector<int64_t> permutation(int64_t count, uint64_t seed, int64_t epoch) {
  KERF_CHECK(count >= 0 && count <= int64_t{1} << 32U, "a permutation of {}", count);
  const RandomStream stream = stream_of({seed, kPermutationPurpose, epoch, 0});
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (auto i = static_cast<uint64_t>(count); i-- > 1;)
    std::swap(order[i], order[(stream.block(i).of[0] * (i + 1)) >> 32U]);
  return order;
}

}  // namespace kerf::ops
