// Regions: blocks of memory with fixed offsets. A block lives from one instruction of a list to
// another; blocks that live at once do not overlap. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kerf::partitioner {

struct Block {
  int64_t bytes = 0;  // whole blocks of 64
  size_t first = 0;   // instructions, both included
  size_t last = 0;
  int64_t offset = -1;
};

// The greatest sum of bytes that live at once: no region can be smaller.
int64_t greatest_sum(const std::vector<Block>& blocks);

// Fills in the offsets; returns the bytes of the region. Places block by block at the lowest free
// offset, in several orders, and keeps the best (interval packing is NP-hard: Garey and Johnson,
// 1979, problem SR2). O(n k log n) where k of the n blocks live at nearly one time.
int64_t place_blocks(std::vector<Block>& blocks);

}  // namespace kerf::partitioner
