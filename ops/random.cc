#include "ops/random.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "runtime/error.h"

namespace kerf::ops {
namespace {

using Words = std::array<uint32_t, 4>;

constexpr uint32_t kKeyTag = 0x6b657266U;  // "kerf": keeps the counters of keys apart from others

uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32U); }

// A RandomKey made ready: what all blocks of its stream have in common.
class Blocks {
 public:
  explicit Blocks(const RandomKey& key)
      : step_(low(static_cast<uint64_t>(key.step))),
        micro_batch_(static_cast<uint32_t>(key.micro_batch)) {
    const Words mixed = philox({key.purpose, high(static_cast<uint64_t>(key.step)), kKeyTag, 0},
                               {low(key.seed), high(key.seed)});
    key_ = {mixed[0], mixed[1]};
  }

  Words operator()(uint64_t block) const {
    return philox({low(block), high(block), step_, micro_batch_}, key_);
  }

 private:
  std::array<uint32_t, 2> key_{};
  uint32_t step_;
  uint32_t micro_batch_;
};

using Numbers = std::array<float, 4>;

constexpr float kUnit = 0x1p-24F;

Numbers uniforms(const Words& words) {
  Numbers numbers;
  for (size_t i = 0; i < 4; ++i) numbers[i] = static_cast<float>(words[i] >> 8U) * kUnit;
  return numbers;
}

Numbers normals(const Words& words) {
  Numbers numbers;
  for (size_t i = 0; i < 4; i += 2) {
    const float u = static_cast<float>((words[i] >> 8U) + 1) * kUnit;
    const float v = static_cast<float>(words[i + 1] >> 8U) * kUnit;
    const float radius = std::sqrt(-2 * std::log(u));
    const float angle = 2 * std::numbers::pi_v<float> * v;
    numbers[i] = radius * std::cos(angle);
    numbers[i + 1] = radius * std::sin(angle);
  }
  return numbers;
}

// Elements `first` and on of the numbers that `draw` makes of each block.
template <class Draw>
void fill(const RandomKey& key, int64_t first, std::span<float> to, const Draw& draw) {
  const Blocks blocks(key);
  auto block = static_cast<uint64_t>(first) / 4;
  size_t skip = static_cast<uint64_t>(first) % 4;
  for (size_t done = 0; done < to.size(); ++block, skip = 0) {
    const Numbers numbers = draw(blocks(block));
    const size_t count = std::min(4 - skip, to.size() - done);
    std::copy_n(numbers.begin() + skip, count, to.begin() + static_cast<ptrdiff_t>(done));
    done += count;
  }
}

}  // namespace

Words philox(Words counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53U;
  constexpr uint64_t kMultiplier1 = 0xCD9E8D57U;
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = kMultiplier0 * counter[0];
    const uint64_t b = kMultiplier1 * counter[2];
    counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
    key[0] += 0x9E3779B9U;  // the golden ratio
    key[1] += 0xBB67AE85U;  // the square root of 3, less 1
  }
  return counter;
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
  const Blocks blocks({seed, kPermutationPurpose, epoch, 0});
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (auto i = static_cast<uint64_t>(count); i-- > 1;)
    std::swap(order[i], order[(blocks(i)[0] * (i + 1)) >> 32U]);
  return order;
}

}  // namespace kerf::ops
