// How items are divided into the blocks that travel: in an order drawn by the seed, so that popular
// items, which many files have first, are spread; of blocks that differ by one item at most.
// Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kerf::apps {

class ItemBlocks {
 public:
  struct Place {
    int32_t block = 0;
    int32_t index = 0;  // within the block
    bool operator==(const Place&) const = default;
  };

  ItemBlocks(int64_t items, int blocks, uint64_t seed);

  int64_t items() const { return static_cast<int64_t>(order_.size()); }
  int blocks() const { return blocks_; }
  int64_t size(int block) const { return begin(block + 1) - begin(block); }
  int64_t largest() const;
  Place place(int64_t item) const { return places_[static_cast<size_t>(item)]; }
  int64_t item(int block, int64_t index) const {
    return order_[static_cast<size_t>(begin(block) + index)];
  }

 private:
  int64_t begin(int block) const { return items() * block / blocks_; }

  int blocks_;
  std::vector<int64_t> order_;  // items, block by block
  std::vector<Place> places_;   // by item
};

}  // namespace kerf::apps
