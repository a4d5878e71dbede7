#include "schedmp/selection/pair_table.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"
#include "schedmp/selection/variables.h"

namespace kerf::schedmp {
namespace {

uint64_t name_of(int64_t variable, int64_t other) {
  const auto [low, high] = std::minmax(variable, other);
  KERF_CHECK(low >= 0 && high < kMostVariables, "variables {} and {}", low, high);
  return static_cast<uint64_t>(low) << 32 | static_cast<uint64_t>(high);
}

// The mixing of MurmurHash3 (Appleby), up to its first multiplication.
uint64_t mixed(uint64_t pair) {
  pair = (pair ^ pair >> 33) * 0xff51afd7ed558ccdU;
  return pair ^ pair >> 33;
}

}  // namespace

// Where it is, or would be.
size_t PairTable::place_of(uint64_t pair) const {
  const size_t mask = slots_.size() - 1;
  size_t place = mixed(pair) & mask;
  while (slots_[place].pair != 0 && slots_[place].pair != pair) place = (place + 1) & mask;
  return place;
}

const double* PairTable::find(int64_t variable, int64_t other) const {
  const Slot& slot = slots_[place_of(name_of(variable, other))];
  return slot.pair == 0 ? nullptr : &slot.number;
}

void PairTable::set(int64_t variable, int64_t other, double number) {
  KERF_CHECK(variable != other, "variable {} makes no pair with itself", variable);
  const uint64_t pair = name_of(variable, other);
  Slot& slot = slots_[place_of(pair)];
  const bool added = slot.pair == 0;
  slot = {pair, number};
  if (added && 2 * ++size_ > std::ssize(slots_)) grow();
}

void PairTable::grow() {
  const std::vector<Slot> slots = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
  for (const Slot& slot : slots)
    if (slot.pair != 0) slots_[place_of(slot.pair)] = slot;
}

}  // namespace kerf::schedmp
