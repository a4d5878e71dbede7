#include "schedmp/variables/block_rotation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

// Workers and blocks.
class Rotations : public testing::TestWithParam<std::pair<int, int>> {
 protected:
  int workers() const { return GetParam().first; }
  int blocks() const { return GetParam().second; }
  BlockRotation rotation() const { return {workers(), blocks()}; }
};

std::vector<int> row_of(const BlockRotation& rotation, int worker, int64_t rotations) {
  std::vector<int> row;
  for (int64_t r = 0; r < rotations; ++r) row.push_back(rotation.visit(worker, r).block);
  return row;
}

TEST(BlockRotation, IsAStaircase) {
  const BlockRotation three(3, 3);
  EXPECT_THAT(row_of(three, 0, 4), testing::ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(row_of(three, 1, 4), testing::ElementsAre(1, 2, 0, 1));
  EXPECT_THAT(row_of(three, 2, 4), testing::ElementsAre(2, 0, 1, 2));
  const BlockRotation two(2, 4);
  EXPECT_THAT(row_of(two, 0, 5), testing::ElementsAre(0, 1, 2, 3, 0));
  EXPECT_THAT(row_of(two, 1, 5), testing::ElementsAre(2, 3, 0, 1, 2));
}

TEST_P(Rotations, EveryWorkerHasEveryBlockOnceInAFullTurn) {
  const BlockRotation rotation = this->rotation();
  EXPECT_EQ(rotation.rotations_per_turn(), blocks());
  for (int worker = 0; worker < workers(); ++worker)
    for (int64_t turn = 0; turn < 3; ++turn) {
      std::set<int> had;
      for (int64_t r = 0; r < blocks(); ++r)
        had.insert(rotation.visit(worker, turn * blocks() + r).block);
      EXPECT_EQ(std::ssize(had), blocks());
    }
}

TEST_P(Rotations, NoBlockIsAtTwoWorkersAtOnce) {
  const BlockRotation rotation = this->rotation();
  for (int64_t r = 0; r < 3 * blocks(); ++r) {
    std::set<int> at_work;
    for (int worker = 0; worker < workers(); ++worker) {
      const int block = rotation.visit(worker, r).block;
      at_work.insert(block);
      EXPECT_EQ(rotation.holder(block, r), worker);
    }
    EXPECT_EQ(std::ssize(at_work), workers());
  }
}

// Carries blocks as visits say, from their homes on: a worker always has the block that it works
// on, it came from where it should, and the bookkeeping of holder() is where they are.
TEST_P(Rotations, BlocksTravelFromNeighbourToNeighbour) {
  const BlockRotation rotation = this->rotation();
  std::vector<int> at, given_by(static_cast<size_t>(blocks()), -1);
  for (int block = 0; block < blocks(); ++block) at.push_back(rotation.home(block));
  for (int64_t r = 0; r < 3 * blocks(); ++r) {
    std::vector<int> held(static_cast<size_t>(workers()));
    for (int block = 0; block < blocks(); ++block) {
      EXPECT_EQ(rotation.holder(block, r), at[static_cast<size_t>(block)]);
      ++held[static_cast<size_t>(at[static_cast<size_t>(block)])];
    }
    EXPECT_THAT(held, testing::Each(blocks() / workers()));
    for (int worker = 0; worker < workers(); ++worker) {
      const Visit visit = rotation.visit(worker, r);
      const auto block = static_cast<size_t>(visit.block);
      ASSERT_EQ(at[block], worker) << "rotation " << r;
      EXPECT_EQ(visit.from.value_or(-1), given_by[block]);
      if (!visit.to) continue;
      EXPECT_EQ((*visit.to + 1) % workers(), worker);
      at[block] = *visit.to;
      given_by[block] = worker;
    }
  }
}

TEST_P(Rotations, AllBlocksAreAtHomeBehindATurn) {
  const BlockRotation rotation = this->rotation();
  std::vector<int> loaded(static_cast<size_t>(workers()));
  for (int block = 0; block < blocks(); ++block) {
    ++loaded[static_cast<size_t>(rotation.home(block))];
    EXPECT_EQ(rotation.holder(block, int64_t{1000} * blocks()), rotation.home(block));
  }
  EXPECT_THAT(loaded, testing::Each(blocks() / workers()));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Rotations,
                         testing::Values(std::pair(1, 1), std::pair(1, 3), std::pair(2, 2),
                                         std::pair(2, 6), std::pair(3, 3), std::pair(4, 8),
                                         std::pair(5, 15)));

TEST(BlockRotation, OfOneWorkerGivesNothingAway) {
  const BlockRotation rotation(1, 3);
  for (int64_t r = 0; r < 7; ++r)
    EXPECT_EQ(rotation.visit(0, r), (Visit{static_cast<int>(r % 3), {}, {}}));
}

TEST(BlockRotation, RefusesBlocksThatDoNotDivide) {
  for (const auto& sizes :
       std::vector<std::pair<int, int>>{{0, 4}, {-2, 4}, {3, 4}, {3, 0}, {3, -3}}) {
    const auto error = tests::error_of([&] { BlockRotation(sizes.first, sizes.second); });
    ASSERT_TRUE(error) << sizes.first << ", " << sizes.second;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
  }
  EXPECT_THAT(tests::error_of([] { BlockRotation(3, 4); })->what(),
              testing::HasSubstr("take a multiple of 3"));
}

}  // namespace
}  // namespace kerf::schedmp
