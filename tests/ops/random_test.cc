// Keyed random numbers: the published vectors of Philox, and streams that look random and depend on
// every part of their key.
#include "ops/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <numeric>

namespace kerf::ops {
namespace {

using testing::ElementsAre;

// The known-answer vectors that its authors publish for philox4x32-10.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_THAT(philox({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

constexpr RandomKey kKey{42, 7, 1000, 3};

std::vector<float> draw(const std::function<void(std::span<float>)>& fill, size_t count) {
  std::vector<float> numbers(count);
  fill(numbers);
  return numbers;
}

struct Moments {
  double mean = 0;
  double variance = 0;
  double neighbours = 0;  // correlation of element i and i + 1
};

Moments moments(const std::vector<float>& x) {
  Moments m;
  const auto count = static_cast<double>(x.size());
  m.mean = std::accumulate(x.begin(), x.end(), 0.0) / count;
  for (size_t i = 0; i < x.size(); ++i) {
    m.variance += (x[i] - m.mean) * (x[i] - m.mean) / count;
    if (i > 0) m.neighbours += (x[i] - m.mean) * (x[i - 1] - m.mean) / count;
  }
  m.neighbours /= m.variance;
  return m;
}

// Bounds are five standard errors of what a million true random numbers would show.
constexpr size_t kMany = 1'000'000;

TEST(Uniform, IsUniform) {
  const auto x = draw([](std::span<float> to) { fill_uniform(kKey, 0, to); }, kMany);
  const Moments m = moments(x);
  EXPECT_NEAR(m.mean, 0.5, 5 * 0.2887e-3);
  EXPECT_NEAR(m.variance, 1.0 / 12, 5 * 7.5e-5);
  EXPECT_NEAR(m.neighbours, 0, 5e-3);
  std::array<int, 64> bins{};
  for (const float u : x) {
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ++bins[static_cast<size_t>(u * 64)];
  }
  double chi_squared = 0;
  for (const int bin : bins) chi_squared += std::pow(bin - kMany / 64.0, 2) / (kMany / 64.0);
  EXPECT_LT(chi_squared, 63 + 5 * std::sqrt(2 * 63.0));
}

TEST(Normal, IsNormal) {
  const auto x = draw([](std::span<float> to) { fill_normal(kKey, 0, to); }, kMany);
  const Moments m = moments(x);
  EXPECT_NEAR(m.mean, 0, 5e-3);
  EXPECT_NEAR(m.variance, 1, 5 * 1.42e-3);
  EXPECT_NEAR(m.neighbours, 0, 5e-3);
  for (const double z : {-2.5, -1.0, -0.3, 0.0, 0.7, 1.5, 3.0}) {
    const auto below = std::count_if(x.begin(), x.end(), [z](float v) { return v < z; });
    const double expected = 0.5 * std::erfc(-z / std::sqrt(2.0));
    const double error = std::sqrt(expected * (1 - expected) / kMany);
    EXPECT_NEAR(static_cast<double>(below) / kMany, expected, 5 * error) << z;
  }
}

// The arithmetic of the header, redone in double from the same words.
TEST(Normal, IsBoxAndMullersOfTheWords) {
  const auto uniforms = draw([](std::span<float> to) { fill_uniform(kKey, 0, to); }, kMany);
  const auto x = draw([](std::span<float> to) { fill_normal(kKey, 0, to); }, kMany);
  for (size_t i = 0; i < kMany; i += 2) {
    const double radius = std::sqrt(-2 * std::log(uniforms[i] + 0x1p-24));
    const double angle = 2 * std::numbers::pi * uniforms[i + 1];
    ASSERT_NEAR(x[i], radius * std::cos(angle), 2e-6) << i;
    ASSERT_NEAR(x[i + 1], radius * std::sin(angle), 2e-6) << i;
  }
}

// Whoever draws, wherever the draw begins, an element is the same bits.
TEST(Streams, ArePureFunctionsOfTheIndex) {
  const auto uniforms = draw([](std::span<float> to) { fill_uniform(kKey, 0, to); }, 100);
  const auto normals = draw([](std::span<float> to) { fill_normal(kKey, 0, to); }, 100);
  for (size_t first = 0; first < 12; ++first) {
    for (size_t count = 0; count < 12; ++count) {
      const auto at = static_cast<ptrdiff_t>(first);
      const auto end = static_cast<ptrdiff_t>(first + count);
      const auto start = static_cast<int64_t>(first);
      EXPECT_EQ(draw([&](std::span<float> to) { fill_uniform(kKey, start, to); }, count),
                std::vector<float>(uniforms.begin() + at, uniforms.begin() + end));
      EXPECT_EQ(draw([&](std::span<float> to) { fill_normal(kKey, start, to); }, count),
                std::vector<float>(normals.begin() + at, normals.begin() + end));
    }
  }
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(uniform(kKey, static_cast<int64_t>(i)), uniforms[i]);
    EXPECT_EQ(normal(kKey, static_cast<int64_t>(i)), normals[i]);
  }
}

// The words of the header's recipe, one by one.
TEST(Streams, FollowTheWrittenRecipe) {
  const RandomKey key{0x0123456789abcdef, 5, (int64_t{9} << 32) + 8, 6};
  const auto k = philox({5, 9, 0x6b657266, 0}, {0x89abcdef, 0x01234567});
  const int64_t index = (int64_t{3} << 34) + 4 * 11 + 2;
  const auto words = philox({11, 3, 8, 6}, {k[0], k[1]});
  EXPECT_EQ(uniform(key, index), static_cast<float>(words[2] >> 8) / 16777216.0F);
}

TEST(Streams, DifferInEveryPartOfTheKey) {
  const auto take = [](const RandomKey& key) {
    return draw([&](std::span<float> to) { fill_uniform(key, 0, to); }, 64);
  };
  const std::vector<RandomKey> keys{
      {42, 7, 1000, 3}, {43, 7, 1000, 3}, {42 + (uint64_t{1} << 32), 7, 1000, 3},
      {42, 8, 1000, 3}, {42, 7, 1001, 3}, {42, 7, 1000 + (int64_t{1} << 32), 3},
      {42, 7, 1000, 4}};
  for (size_t a = 0; a < keys.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const auto x = take(keys[a]);
      const auto y = take(keys[b]);
      int same = 0;
      for (size_t i = 0; i < x.size(); ++i) same += x[i] == y[i] ? 1 : 0;
      EXPECT_EQ(same, 0) << a << " and " << b;
    }
  }
}

TEST(Permutation, HasEveryElementOnce) {
  for (const int64_t count : {0, 1, 2, 3, 10, 1000}) {
    auto order = permutation(count, 1, 0);
    std::sort(order.begin(), order.end());
    std::vector<int64_t> expected(static_cast<size_t>(count));
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(order, expected);
  }
}

TEST(Permutation, DependsOnSeedAndEpochOnly) {
  EXPECT_EQ(permutation(100, 1, 2), permutation(100, 1, 2));
  EXPECT_NE(permutation(100, 1, 2), permutation(100, 2, 2));
  EXPECT_NE(permutation(100, 1, 2), permutation(100, 1, 3));
  EXPECT_NE(permutation(100, 1, 2), permutation(100, 2, 1));
}

TEST(Permutation, FollowsTheWrittenRecipe) {
  const auto k = philox({0x7fffffff, 0, 0x6b657266, 0}, {17, 0});
  std::vector<int64_t> expected(50);
  std::iota(expected.begin(), expected.end(), 0);
  for (uint32_t i = 49; i > 0; --i) {
    const uint64_t word = philox({i, 0, 4, 0}, {k[0], k[1]})[0];
    std::swap(expected[i], expected[(word * (i + 1)) >> 32]);
  }
  EXPECT_EQ(permutation(50, 17, 4), expected);
}

// All 24 orders of four elements come about equally often.
TEST(Permutation, IsFair) {
  std::map<std::vector<int64_t>, int> count;
  for (int epoch = 0; epoch < 24000; ++epoch) ++count[permutation(4, 5, epoch)];
  EXPECT_EQ(count.size(), 24U);
  for (const auto& [order, times] : count) EXPECT_NEAR(times, 1000, 5 * std::sqrt(1000.0));
}

TEST(Permutation, OfADataSetTakesNoTime) {
  const auto start = std::chrono::steady_clock::now();
  const auto order = permutation(60000, 1, 0);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(order.size(), 60000U);
  RecordProperty("microseconds", static_cast<int>(taken.count() * 1e6));
  EXPECT_LT(taken.count(), 0.5);  // generous: sanitizers and busy machines; it is near 1 ms
}

}  // namespace
}  // namespace kerf::ops
