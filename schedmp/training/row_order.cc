#include "schedmp/training/row_order.h"

#include "runtime/error.h"

namespace kerf::schedmp {

RowOrder::RowOrder(int64_t rows, uint64_t seed, int64_t epoch, int64_t most_listed)
    : rows_(rows), stream_(ops::stream_of({seed, ops::kPermutationPurpose, epoch, 1})) {
  KERF_CHECK(rows >= 0 && rows <= int64_t{1} << 62, "an order of {} rows", rows);
  if (rows <= most_listed) {
    listed_ = ops::permutation(rows, seed, epoch);
    return;
  }
  while (int64_t{1} << 2 * half_bits_ < rows) ++half_bits_;
}

uint64_t RowOrder::turned(uint64_t place) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = place >> half_bits_;
  uint64_t right = place & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t mixed = left ^ (stream_.block(round << 32 | right).of[0] & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

int64_t RowOrder::operator[](int64_t place) const {
  KERF_CHECK(place >= 0 && place < rows_, "place {} of {}", place, rows_);
  if (!listed_.empty()) return listed_[static_cast<size_t>(place)];
  auto row = static_cast<uint64_t>(place);
  do {
    row = turned(row);
  } while (row >= static_cast<uint64_t>(rows_));
  return static_cast<int64_t>(row);
}

}  // namespace kerf::schedmp
