// CCD++ (Yu, Hsieh, Si and Dhillon: "Scalable coordinate descent approaches to parallel matrix
// factorization for recommender systems", ICDM 2012) over blocks that travel: a worker's part of
// it. The rows of the factors are made one number at a time, k = 0, 1, ...: with the residuals
//
//   e = value - p . q,  d = e + p_k q_k
//   p_k = (sum over the user's ratings of d q_k) / (sum of q_k^2 + lambda)
//   q_k = (sum over the item's ratings of d p_k) / (sum of p_k^2 + lambda)
//
// each of which is the minimum along it. A number takes two turns of the blocks. In the first, sums
// for users add up at their workers; in the second, sums for items travel with the items, and who
// has the block at the next turn's begin makes q_k of them. Residuals follow one turn later.
//
//   turn        1           2           3              4
//   users       sums p_0    sums q_0    e, sums p_1    sums q_1
//   behind it   p_0         q_0         p_1            q_1
//
// Used by the compute thread.
#pragma once

#include <span>
#include <vector>

#include "apps/mf/rating_cells.h"
#include "schedmp/variables/travelling_blocks.h"

namespace kerf::apps {

// The items' rows, block by block.
using ItemRows = schedmp::TravellingBlocks<float>;
// What travels with an item's row: three numbers.
inline constexpr int kNumbersOfSums = 3;

// One number k of the rows of users or of items, and the sums that it is made of. A view.
struct RankOneSide {
  float* now = nullptr;
  int stride = 1;            // of now, from row to row
  float* before = nullptr;   // what now was
  float* product = nullptr;  // sum of d times the other side's number
  float* weight = nullptr;   // sum of the other side's squares, and lambda
};

// Ratings of one item lie side by side in all cells. Residuals follow from what was to what is.
void settle_residuals(std::span<const Rating> cell, const RankOneSide& users,
                      const RankOneSide& items, std::span<float> residuals);
void sum_for_users(std::span<const Rating> cell, std::span<const float> residuals, float lambda,
                   const RankOneSide& users, const RankOneSide& items);
// Users' numbers have changed since the residuals were settled: d is of those before.
void sum_for_items(std::span<const Rating> cell, std::span<const float> residuals, float lambda,
                   const RankOneSide& users, const RankOneSide& items);
// The sums become the numbers of so many rows, and begin anew; who is not rated keeps its own.
void take_minimum(const RankOneSide& side, int64_t rows);

class RankOnes {
 public:
  // Of rows of users that are all zero.
  RankOnes(const RatingCells& cells, int64_t users, int rank, int stride);

  // Once for every number: so many times two turns. The sums of the last travel on with the blocks,
  // until settle().
  void iterate(ItemRows& blocks, float lambda, std::vector<float>& users,
               runtime::Activity& activity);
  // What is to be done with a block that was taken, before anything else, in the turn's rotation of
  // this number.
  void settle(const ItemRows& blocks, int rotation, std::span<float> block,
              std::vector<float>& users);
  // What a snapshot holds of it.
  template <class Archive>
  void serialize(Archive& archive) {
    archive(residuals_, before_, product_, weight_, unsettled_);
  }

 private:
  RankOneSide users_side(std::vector<float>& users, int number);
  RankOneSide items_side(std::span<float> block, int number) const;

  const RatingCells& cells_;
  int rank_;
  int stride_;
  std::vector<std::vector<float>> residuals_;     // by cell
  std::vector<float> before_, product_, weight_;  // of users
  int unsettled_ = -1;                            // the number that residuals have yet to follow
};

}  // namespace kerf::apps
