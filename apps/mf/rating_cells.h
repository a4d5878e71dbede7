// A worker's ratings, by the block of items that they are of: what it works on while it has that
// block.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/data/sparse_columns.h"
#include "apps/mf/item_blocks.h"

namespace kerf::apps {

struct Rating {
  int32_t user = 0;  // from the worker's first
  int32_t item = 0;  // within the block
  float value = 0;
};
using RatingCells = std::vector<std::vector<Rating>>;  // by block

// How many numbers, their mean, and the sum of squares of what they differ from it by.
struct Moments {
  int64_t count = 0;
  double mean = 0;
  double squares = 0;

  // Of both together (Chan, Golub and LeVeque, 1979).
  void add(const Moments& more);
  template <class Archive>
  void serialize(Archive& archive) {
    archive(count, mean, squares);
  }
};
Moments moments_of(const std::vector<double>& values);

// Less `mean`, in the order of the matrix: item by item.
RatingCells cells_of(const SparseColumns& ratings, const ItemBlocks& items, double mean);
// So many, all over the rows of some users and items: for who wants to know how long it takes.
std::vector<Rating> sample_of_ratings(int64_t count, int64_t users, int64_t items);
// Every cell in an order of its own, drawn by the seed.
void shuffle(RatingCells& cells, uint64_t seed, int worker);
// Every value v becomes (v - shift) / scale.
void standardise(RatingCells& cells, double shift, double scale);

}  // namespace kerf::apps
