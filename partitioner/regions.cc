#include "partitioner/regions.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

namespace kerf::partitioner {
namespace {

using BlockOrder = std::vector<size_t>;

bool live_at_once(const Block& a, const Block& b) { return a.first <= b.last && b.first <= a.last; }

// What packing may cost: pairs of blocks compared. A few orders are tried in any case, more as far
// as that goes.
constexpr size_t kMostComparisons = 40'000'000;
constexpr size_t kFewOrders = 200;
constexpr size_t kManyOrders = 20'000;
// Compared by one attempt: of so many, few orders are tried, and fewer from near the least.
constexpr size_t kManyPairs = 5'000;
constexpr size_t kFewComparisons = 5'000'000;
constexpr size_t kLastComparisons = 500'000;

// The blocks that are placed, by the stretch of time in which they live, so that a block meets few
// that it cannot collide with.
class Placed {
  static constexpr size_t kLength = 256;  // instructions
  auto before() const {
    return [this](size_t a, size_t b) { return offsets_[a] < offsets_[b]; };
  }

 public:
  Placed(const std::vector<Block>& blocks, const std::vector<int64_t>& offsets)
      : blocks_(blocks), offsets_(offsets) {}

  // Those that live when `block` does, and perhaps others, by ascending offset; until the next
  // call.
  const BlockOrder& around(size_t block) {
    const auto [first, last] = stretches(block);
    if (first == last) return in_[first];
    around_.clear();
    for (size_t stretch = first; stretch <= last; ++stretch)
      for (const size_t other : in_[stretch])
        if (stretch == std::max(first, stretches(other).first)) around_.push_back(other);
    std::sort(around_.begin(), around_.end(), before());
    return around_;
  }

  void add(size_t block) {
    const auto [first, last] = stretches(block);
    for (size_t stretch = first; stretch <= last; ++stretch) {
      BlockOrder& in = in_[stretch];
      in.insert(std::upper_bound(in.begin(), in.end(), block, before()), block);
    }
  }

 private:
  std::pair<size_t, size_t> stretches(size_t block) {
    const size_t last = blocks_[block].last / kLength;
    if (in_.size() <= last) in_.resize(last + 1);
    return {blocks_[block].first / kLength, last};
  }

  const std::vector<Block>& blocks_;
  const std::vector<int64_t>& offsets_;
  std::vector<BlockOrder> in_;  // by stretch
  BlockOrder around_;
};

class Placing {
 public:
  explicit Placing(std::vector<Block>& blocks) : blocks_(blocks), least_(greatest_sum(blocks)) {
    for (const Block& block : blocks_) end_ = std::max(end_, block.last + 1);
  }

  int64_t run() {
    std::vector<BlockOrder> orders;
    const auto by = [&](const auto& key) { orders.push_back(order_by(key)); };
    const auto length = [](const Block& b) { return static_cast<int64_t>(b.last - b.first + 1); };
    by([](const Block& b) { return b.bytes; });
    by([&](const Block& b) { return length(b); });
    by([&](const Block& b) { return b.bytes * length(b); });
    by([](const Block& b) { return -static_cast<int64_t>(b.first); });
    by([](const Block& b) { return static_cast<int64_t>(b.last); });
    BlockOrder best = orders.front();
    for (const BlockOrder& order : orders)
      if (attempt(order)) best = order;
    for (const BlockOrder& order : orders) from_both_ends(order);
    if (attempt(best) || best_bytes_ > least_) improve(std::move(best));
    return take();
  }

 private:
  // Descending, of equal ones as they stand.
  template <class Key>
  BlockOrder order_by(const Key& key) const {
    BlockOrder order(blocks_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return key(blocks_[a]) > key(blocks_[b]); });
    return order;
  }

  int64_t take() {
    for (size_t i = 0; i < blocks_.size(); ++i) blocks_[i].offset = best_[i];
    return best_bytes_;
  }

  // Places in this order; true if that is the best so far.
  bool attempt(const BlockOrder& order) {
    if (best_bytes_ == least_) return false;
    std::vector<int64_t> offsets(blocks_.size(), -1);
    compared_ = 1;
    last_bytes_ = place(order, offsets);
    last_ = std::move(offsets);
    if (best_bytes_ >= 0 && last_bytes_ >= best_bytes_) return false;
    best_bytes_ = last_bytes_;
    best_ = last_;
    return true;
  }

  // Each at the lowest free offset; returns where the highest ends.
  int64_t place(const BlockOrder& order, std::vector<int64_t>& offsets) {
    Placed placed(blocks_, offsets);
    int64_t bytes = 0;
    for (const size_t i : order) {
      int64_t at = 0;
      for (const size_t other : placed.around(i)) {
        ++compared_;
        if (!live_at_once(blocks_[i], blocks_[other])) continue;
        if (offsets[other] - at >= blocks_[i].bytes) break;
        at = std::max(at, offsets[other] + blocks_[other].bytes);
      }
      offsets[i] = at;
      bytes = std::max(bytes, at + blocks_[i].bytes);
      placed.add(i);
    }
    return bytes;
  }

  // What forward keeps goes in the order opposite to that in which it came, while gradients come
  // and stay: two stacks, of which one grows as the other shrinks. Each has an end of the region.
  void from_both_ends(const BlockOrder& order) {
    if (best_bytes_ == least_) return;
    const size_t middle = mean_time();
    BlockOrder low, high;
    for (const size_t i : order) {
      const Block& block = blocks_[i];
      const bool stays = is_long(block) && time_of(block) > middle;
      (stays ? high : low).push_back(i);
    }
    if (low.empty() || high.empty()) return;  // as attempt() has it
    std::vector<int64_t> offsets(blocks_.size(), -1);
    place(low, offsets);
    place(high, offsets);
    const int64_t bytes = together(low, high, offsets);
    if (bytes >= best_bytes_) return;
    for (const size_t i : high) offsets[i] = bytes - offsets[i] - blocks_[i].bytes;
    best_bytes_ = bytes;
    best_ = std::move(offsets);
  }

  static size_t time_of(const Block& block) { return (block.first + block.last) / 2; }
  bool is_long(const Block& block) const { return (block.last - block.first) * 8 > end_; }
  // Of blocks that live for long: the mean of their times.
  size_t mean_time() const {
    size_t sum = 0;
    size_t count = 0;
    for (const Block& block : blocks_)
      if (is_long(block)) {
        sum += time_of(block);
        ++count;
      }
    return count == 0 ? 0 : sum / count;
  }
  // How high the two stacks are at once, at most.
  int64_t together(const BlockOrder& low, const BlockOrder& high,
                   const std::vector<int64_t>& offsets) const {
    const auto heights = [&](const BlockOrder& stack) {
      std::vector<int64_t> height(end_);
      for (const size_t i : stack)
        for (size_t at = blocks_[i].first; at <= blocks_[i].last; ++at)
          height[at] = std::max(height[at], offsets[i] + blocks_[i].bytes);
      return height;
    };
    const std::vector<int64_t> below = heights(low);
    const std::vector<int64_t> above = heights(high);
    int64_t most = 0;
    for (size_t at = 0; at < below.size(); ++at) most = std::max(most, below[at] + above[at]);
    return most;
  }

  bool dense() const { return best_bytes_ * 100 <= least_ * 105; }
  bool nearly_least() const { return best_bytes_ * 100 <= least_ * 102; }

  // Moves blocks within the order, every other time one that sticks out to an earlier place; goes
  // on from what is no worse, so that it does not stay where it began.
  void improve(BlockOrder order) {
    const bool many = compared_ > kManyPairs;
    const size_t most =
        std::min(kManyOrders, (many ? kFewComparisons : kMostComparisons) / compared_);
    std::mt19937 random(1);
    for (size_t i = 0; i < most && best_bytes_ > least_; ++i) {
      if ((dense() && i > kFewOrders) ||
          (many && nearly_least() && i * compared_ > kLastComparisons))
        break;
      BlockOrder changed = order;
      size_t from = random() % changed.size();
      if (i % 2 == 0)
        for (size_t at = 0; at < changed.size(); ++at)
          if (last_[changed[at]] + blocks_[changed[at]].bytes == last_bytes_) from = at;
      const size_t to = i % 2 == 1 || from == 0 ? random() % changed.size() : random() % from;
      const size_t block = changed[from];
      changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(from));
      changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(to), block);
      const int64_t before = last_bytes_;
      std::vector<int64_t> offsets = last_;
      attempt(changed);
      if (last_bytes_ <= before || random() % 100 == 0) {
        order = std::move(changed);
      } else {
        last_bytes_ = before;
        last_ = std::move(offsets);
      }
    }
  }

  std::vector<Block>& blocks_;
  const int64_t least_;
  size_t end_ = 0;  // instructions
  int64_t best_bytes_ = -1;
  std::vector<int64_t> best_;  // offsets
  size_t compared_ = 1;        // pairs, by the last attempt
  int64_t last_bytes_ = -1;    // of the last attempt
  std::vector<int64_t> last_;
};

}  // namespace

int64_t greatest_sum(const std::vector<Block>& blocks) {
  std::map<size_t, int64_t> changes;
  for (const Block& block : blocks) {
    changes[block.first] += block.bytes;
    changes[block.last + 1] -= block.bytes;
  }
  int64_t now = 0;
  int64_t most = 0;
  for (const auto& [at, change] : changes) most = std::max(most, now += change);
  return most;
}

int64_t place_blocks(std::vector<Block>& blocks) {
  if (blocks.empty()) return 0;
  return Placing(blocks).run();
}

}  // namespace kerf::partitioner
