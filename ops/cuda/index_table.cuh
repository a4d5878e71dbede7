// Where the indices of one axis lie in the local tensor that holds some of them, on the device: the
// twin of ops/local_index.h.
//
// An IndexTable is owned by a kernel and gives bodies a view of itself.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/cuda/device_table.h"
#include "ops/cuda/launch.cuh"
#include "ops/layout.h"

namespace kerf::ops::cuda {

// Ranges as begin, end and the local index of begin, ascending.
struct IndexView {
  const int64_t* ranges;
  int64_t count;
  int64_t extent;  // of the whole axis, for the largest micro-batch where it counts samples

  // The range that holds `key`, compared with the entry `by` of each: the last that begins at or
  // before it; -1 before the first.
  KERF_DEVICE int64_t find(int64_t key, int by) const {
    int64_t low = 0;
    int64_t high = count;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (ranges[3 * middle + by] <= key)
        low = middle + 1;
      else
        high = middle;
    }
    return low - 1;
  }
  // -1 where it is not held.
  KERF_DEVICE int64_t local(int64_t global) const {
    const int64_t at = find(global, 0);
    if (at < 0 || global >= ranges[3 * at + 1]) return -1;
    return ranges[3 * at + 2] + global - ranges[3 * at];
  }
  // Of a local index that is held.
  KERF_DEVICE int64_t global(int64_t local) const {
    const int64_t at = find(local, 2);
    return ranges[3 * at] + local - ranges[3 * at + 2];
  }
};

class IndexTable {
 public:
  IndexTable(const Queue& queue, const IndexSet& set, int64_t extent)
      : extent_(extent), ranges_(set.ranges(extent)), table_(queue, numbers_of(ranges_)) {}

  IndexView view() const { return {table_.data(), static_cast<int64_t>(ranges_.size()), extent_}; }
  int64_t extent() const { return extent_; }
  bool has_first() const { return !ranges_.empty() && ranges_.front().begin == 0; }

 private:
  static std::vector<int64_t> numbers_of(const std::vector<Range>& ranges) {
    std::vector<int64_t> numbers;
    int64_t local = 0;
    for (const Range& range : ranges) {
      numbers.insert(numbers.end(), {range.begin, range.end, local});
      local += range.size();
    }
    return numbers;
  }

  int64_t extent_;
  std::vector<Range> ranges_;
  DeviceTable table_;
};

}  // namespace kerf::ops::cuda
