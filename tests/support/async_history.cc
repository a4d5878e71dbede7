#include "tests/support/async_history.h"

#include <algorithm>
#include <set>

namespace kerf::tests {

uint64_t Clock::tick(Lane lane) {
  if (times_.size() <= lane) times_.resize(lane + 1);
  return ++times_[lane];
}

bool Clock::includes(const Clock& other) const {
  for (Lane lane = 0; lane < other.times_.size(); ++lane)
    if (time(lane) < other.times_[lane]) return false;
  return true;
}

void Clock::join(const Clock& other) {
  if (times_.size() < other.times_.size()) times_.resize(other.times_.size());
  for (Lane lane = 0; lane < other.times_.size(); ++lane)
    times_[lane] = std::max(times_[lane], other.times_[lane]);
}

History::History(size_t bytes) { segments_[0].end = bytes; }

// The segment that begins at `at`; the end of all if that is the end of the allocation.
size_t History::kept() const {
  size_t count = 0;
  for (const auto& [begin, segment] : segments_) count += segment.accesses.size();
  return count;
}

History::Segments::iterator History::split(size_t at) {
  const auto behind = segments_.lower_bound(at);
  if (behind != segments_.end() && behind->first == at) return behind;
  const auto around = std::prev(behind);
  if (around->second.end == at) return behind;
  const auto second = segments_.emplace_hint(behind, at, around->second);
  around->second.end = at;
  return second;
}

std::vector<Access> History::add(const Access& access, const Clock& seen) {
  const auto first = split(access.begin), last = split(access.end);
  std::set<Access> conflicts;
  bool alone = true;  // nothing else is kept of these bytes
  for (auto at = first; at != last; ++at) {
    auto& accesses = at->second.accesses;
    for (const Access& earlier : accesses)
      if ((earlier.written || access.written) && !earlier.is_in(seen)) conflicts.insert(earlier);
    std::erase_if(accesses, [&](const Access& earlier) {
      return (access.written || !earlier.written) && earlier.is_in(seen);
    });
    accesses.push_back(access);
    alone = alone && accesses.size() == 1;
  }
  if (alone) {  // so an arena is not in splinters for long
    segments_.erase(std::next(first), last);
    first->second.end = access.end;
  }
  return {conflicts.begin(), conflicts.end()};
}

std::vector<Access> History::outside(const Clock& seen) const {
  std::set<Access> found;
  for (const auto& [begin, segment] : segments_)
    for (const Access& access : segment.accesses)
      if (!access.is_in(seen)) found.insert(access);
  return {found.begin(), found.end()};
}

}  // namespace kerf::tests
