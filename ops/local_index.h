// Where the indices of one axis lie in the local tensor that holds some of them.
//
// A plain value; made once per kernel from the iterations it computes.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/layout.h"

namespace kerf::ops {

class LocalIndex {
 public:
  // `extent` is the whole axis's, for the largest micro-batch where it counts samples.
  LocalIndex(const IndexSet& set, int64_t extent) : extent_(extent), ranges_(set.ranges(extent)) {
    int64_t at = 0;
    for (const Range& range : ranges_) {
      starts_.push_back(at);
      at += range.size();
    }
  }

  int64_t extent() const { return extent_; }
  bool has_first() const { return !ranges_.empty() && ranges_.front().begin == 0; }
  // The local index of a global one; -1 where it is not held.
  int64_t local(int64_t global) const {
    const auto after =
        std::upper_bound(ranges_.begin(), ranges_.end(), global,
                         [](int64_t i, const Range& range) { return i < range.end; });
    if (after == ranges_.end() || global < after->begin) return -1;
    return starts_[static_cast<size_t>(after - ranges_.begin())] + global - after->begin;
  }
  // How many that are held lie below a global index.
  int64_t below(int64_t global) const {
    int64_t held = 0;
    for (const Range& range : ranges_)
      held += std::clamp<int64_t>(global - range.begin, 0, range.size());
    return held;
  }
  // The global index of a local one that is held.
  int64_t global(int64_t local) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), local);
    const auto i = static_cast<size_t>(after - starts_.begin()) - 1;
    return ranges_[i].begin + local - starts_[i];
  }

 private:
  int64_t extent_;
  std::vector<Range> ranges_;
  std::vector<int64_t> starts_;  // the local index of each range's begin
};

}  // namespace kerf::ops
