// Which of some slots conflict with which: a symmetric matrix of bits, so that whether one
// conflicts with any of a set is a look at a row of machine words. n^2 / 8 bytes. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kerf::schedmp {

class SlotSet {
 public:
  explicit SlotSet(size_t slots) : words_((slots + 63) / 64) {}
  void add(size_t slot) { words_[slot / 64] |= bit(slot); }
  void remove(size_t slot) { words_[slot / 64] &= ~bit(slot); }
  bool has(size_t slot) const { return (words_[slot / 64] & bit(slot)) != 0; }
  const std::vector<uint64_t>& words() const { return words_; }
  // What a snapshot holds of it, of one that was made of the same arguments.
  template <class Archive>
  void serialize(Archive& archive) {
    archive(words_);
  }

 private:
  static uint64_t bit(size_t slot) { return uint64_t{1} << (slot % 64); }
  std::vector<uint64_t> words_;
};

class ConflictTable {
 public:
  // Each slot conflicts with itself alone.
  explicit ConflictTable(size_t slots);

  size_t slots() const { return slots_; }
  void set(size_t slot, size_t other);
  // As at the beginning: with itself alone.
  void clear(size_t slot);
  bool has(size_t slot, size_t other) const;
  // Whether it conflicts with any of these.
  bool meets(size_t slot, const SlotSet& others) const;
  // What a snapshot holds of it, of one that was made of the same arguments.
  template <class Archive>
  void serialize(Archive& archive) {
    archive(rows_);
  }

 private:
  size_t slots_;
  size_t words_;                // of a row
  std::vector<uint64_t> rows_;  // by slot
};

}  // namespace kerf::schedmp
