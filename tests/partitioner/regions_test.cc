// Packing: blocks that live at once do not overlap, and regions are hardly larger than they must
// be.
#include "partitioner/regions.h"

#include <gtest/gtest.h>

#include <random>

namespace kerf::partitioner {
namespace {

void expect_apart(const std::vector<Block>& blocks, int64_t bytes) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_GE(blocks[i].offset, 0);
    EXPECT_LE(blocks[i].offset + blocks[i].bytes, bytes);
    for (size_t j = 0; j < i; ++j) {
      const Block& a = blocks[i];
      const Block& b = blocks[j];
      const bool at_once = a.first <= b.last && b.first <= a.last;
      const bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
      EXPECT_TRUE(!at_once || apart) << i << " and " << j;
    }
  }
}

TEST(Regions, OfNothingAreEmpty) {
  std::vector<Block> none;
  EXPECT_EQ(place_blocks(none), 0);
}

TEST(Regions, BlocksThatNeverMeetShareTheirPlace) {
  std::vector<Block> chain;
  for (size_t i = 0; i < 6; ++i) chain.push_back({128, 2 * i, 2 * i + 1});
  EXPECT_EQ(place_blocks(chain), 128);
  expect_apart(chain, 128);
}

// First fit in order of time leaves a hole here: 64, 128, then 128 beside the 128.
TEST(Regions, TriesOrdersUntilOneIsDense) {
  std::vector<Block> blocks{{64, 0, 1}, {128, 1, 3}, {64, 3, 5}, {128, 2, 2}, {192, 5, 6}};
  const int64_t least = greatest_sum(blocks);
  EXPECT_EQ(least, 256);
  const int64_t bytes = place_blocks(blocks);
  EXPECT_EQ(bytes, least);
  expect_apart(blocks, bytes);
}

class RandomBlocks : public ::testing::TestWithParam<unsigned> {};

// Chains of tensors that each live for a few instructions, and some for long, as in a backward
// pass.
TEST_P(RandomBlocks, AreWithinTwoPercent) {
  std::mt19937 random(GetParam());
  std::vector<Block> blocks;
  for (size_t i = 0; i < 40; ++i) {
    const size_t length = random() % 5 == 0 ? random() % 30 : random() % 3;
    blocks.push_back({static_cast<int64_t>(64 * (1 + random() % 200)), i, i + length});
  }
  const int64_t bytes = place_blocks(blocks);
  expect_apart(blocks, bytes);
  EXPECT_LE(static_cast<double>(bytes), 1.02 * static_cast<double>(greatest_sum(blocks)));
}

// As in a step: what forward keeps goes from its end, while gradients come and stay until the
// update, and between the two something is always needed for a while.
TEST(Regions, WhatGoesAndWhatStaysHaveAnEndEach) {
  double sum = 0;
  constexpr unsigned kSeeds = 20;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    std::mt19937 random(seed);
    std::vector<Block> blocks;
    constexpr size_t kLayers = 120;
    for (size_t i = 0; i < kLayers; ++i) {
      const auto bytes = [&] { return static_cast<int64_t>(64 * (1 + random() % 200)); };
      const size_t back = 2 * kLayers - 1 - i;
      blocks.push_back({bytes(), i, back});
      blocks.push_back({bytes(), back, 2 * kLayers + i});
      blocks.push_back({bytes(), i, i});
      blocks.push_back({bytes(), back, back + 1});
    }
    const int64_t bytes = place_blocks(blocks);
    expect_apart(blocks, bytes);
    sum += static_cast<double>(bytes) / static_cast<double>(greatest_sum(blocks));
  }
  EXPECT_LE(sum / kSeeds, 1.02);
}

// More than there is time to try many orders of: not as dense.
TEST(Regions, OfThousandsOfBlocksAreWithinAnEighth) {
  std::mt19937 random(1);
  std::vector<Block> blocks;
  for (size_t i = 0; i < 6000; ++i) {
    const size_t length = random() % 5 == 0 ? random() % 30 : random() % 3;
    blocks.push_back({static_cast<int64_t>(64 * (1 + random() % 200)), i, i + length});
  }
  const int64_t bytes = place_blocks(blocks);
  expect_apart(blocks, bytes);
  EXPECT_LE(static_cast<double>(bytes), 1.125 * static_cast<double>(greatest_sum(blocks)));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomBlocks, ::testing::Range(1U, 31U));

}  // namespace
}  // namespace kerf::partitioner
