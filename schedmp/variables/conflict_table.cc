#include "schedmp/variables/conflict_table.h"

namespace kerf::schedmp {

ConflictTable::ConflictTable(size_t slots)
    : slots_(slots), words_((slots + 63) / 64), rows_(slots * words_) {
  for (size_t slot = 0; slot < slots; ++slot) set(slot, slot);
}

void ConflictTable::set(size_t slot, size_t other) {
  rows_[slot * words_ + other / 64] |= uint64_t{1} << (other % 64);
  rows_[other * words_ + slot / 64] |= uint64_t{1} << (slot % 64);
}

void ConflictTable::clear(size_t slot) {
  for (size_t word = 0; word < words_; ++word) rows_[slot * words_ + word] = 0;
  const uint64_t others = ~(uint64_t{1} << (slot % 64));
  for (size_t other = 0; other < slots_; ++other) rows_[other * words_ + slot / 64] &= others;
  set(slot, slot);
}

bool ConflictTable::has(size_t slot, size_t other) const {
  return (rows_[slot * words_ + other / 64] >> (other % 64) & 1) != 0;
}

bool ConflictTable::meets(size_t slot, const SlotSet& others) const {
  const uint64_t* row = rows_.data() + slot * words_;
  uint64_t both = 0;
  for (size_t word = 0; word < words_; ++word) both |= row[word] & others.words()[word];
  return both != 0;
}

}  // namespace kerf::schedmp
