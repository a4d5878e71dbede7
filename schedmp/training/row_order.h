// The order in which an epoch takes the rows of training: a function of seed and epoch, so that
// every worker has the same.
//
// Up to kMostListed rows it is ops::permutation, a list. Of more it is computed row by row, without
// memory: a Feistel network of kRounds rounds over the places below the next power of 4, in which a
// place that leads beyond the rows is followed until it leads back (cycle walking). A round's
// function is word 0 of block (round << 32 | half) of the stream {seed, kPermutationPurpose, epoch,
// 1}. Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/random.h"

namespace kerf::schedmp {

class RowOrder {
 public:
  static constexpr int64_t kMostListed = int64_t{1} << 20;
  static constexpr uint64_t kRounds = 6;

  RowOrder(int64_t rows, uint64_t seed, int64_t epoch, int64_t most_listed = kMostListed);
  // The row at this place of the order.
  int64_t operator[](int64_t place) const;

 private:
  uint64_t turned(uint64_t place) const;

  int64_t rows_;
  ops::RandomStream stream_;
  int half_bits_ = 1;
  std::vector<int64_t> listed_;
};

}  // namespace kerf::schedmp
