#include "partitioner/regions.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <random>

namespace kerf::partitioner {
namespace {

using BlockOrder = std::vector<size_t>;
using Key = std::function<int64_t(const Block&)>;

// Pairs of blocks that are compared without a denser packing, beyond three times as many as led to
// the last one, before the search ends; of many blocks so many times what placing all takes.
constexpr size_t kIdleComparisons = 300'000;
constexpr size_t kIdlePlacings = 2;
// And in any case.
constexpr size_t kMostComparisons = 50'000'000;

bool live_at_once(const Block& a, const Block& b) { return a.first <= b.last && b.first <= a.last; }

// Instruction -> bytes that live at it; one more that has none.
std::vector<int64_t> sums_of(const std::vector<Block>& blocks) {
  size_t end = 0;
  for (const Block& block : blocks) end = std::max(end, block.last + 1);
  std::vector<int64_t> sums(end + 1);
  for (const Block& block : blocks) {
    sums[block.first] += block.bytes;
    sums[block.last + 1] -= block.bytes;
  }
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  return sums;
}

// The blocks that are placed, by ascending offset: all, and by the stretch of time in which they
// live, so that a block of one stretch meets few that it cannot collide with.
class Placed {
 public:
  explicit Placed(size_t end) : by_stretch_(end / kLength + 1) {}

  // Adds to `compared` how many blocks were looked at.
  int64_t lowest_free(const Block& block, size_t& compared) const {
    const std::vector<Lying>& near =
        is_in_one_stretch(block) ? by_stretch_[stretch(block.first)] : all_;
    int64_t at = 0;
    std::array<Lying, kChunk> beside;
    for (size_t from = 0; from < near.size(); from += kChunk) {
      const size_t to = std::min(near.size(), from + kChunk);
      compared += to - from;
      size_t count = 0;  // without a branch, which would be guessed wrong every other time
      for (size_t i = from; i < to; ++i) {
        beside[count] = near[i];
        count += static_cast<size_t>(near[i].first <= block.last) &
                 static_cast<size_t>(block.first <= near[i].last);
      }
      for (size_t i = 0; i < count; ++i) {
        if (beside[i].offset - at >= block.bytes) return at;
        at = std::max(at, beside[i].end);
      }
    }
    return at;
  }

  void add(const Block& block, int64_t offset) {
    const Lying lying{offset, offset + block.bytes, block.first, block.last};
    insert(lying, all_);
    for (size_t at = stretch(block.first); at <= stretch(block.last); ++at)
      insert(lying, by_stretch_[at]);
  }

 private:
  struct Lying {
    int64_t offset = 0;
    int64_t end = 0;
    size_t first = 0;  // instructions
    size_t last = 0;
  };
  static constexpr size_t kLength = 256;  // instructions
  static constexpr size_t kChunk = 64;

  static size_t stretch(size_t instruction) { return instruction / kLength; }
  static bool is_in_one_stretch(const Block& block) {
    return stretch(block.first) == stretch(block.last);
  }
  static void insert(const Lying& lying, std::vector<Lying>& to) {
    const auto behind =
        std::upper_bound(to.begin(), to.end(), lying.offset,
                         [](int64_t offset, const Lying& other) { return offset < other.offset; });
    to.insert(behind, lying);
  }

  std::vector<Lying> all_;
  std::vector<std::vector<Lying>> by_stretch_;
};

class Placing {
 public:
  explicit Placing(std::vector<Block>& blocks)
      : blocks_(blocks), sums_(sums_of(blocks)), least_(*std::ranges::max_element(sums_)) {}

  int64_t run() {
    const std::vector<BlockOrder> orders = first_orders();
    BlockOrder best = orders.front();
    if (!attempt(best)) idle_ = std::max(kIdleComparisons, kIdlePlacings * compared_);
    for (const BlockOrder& order : orders)
      if (!attempt(order)) best = order;
    for (const BlockOrder& order : orders) from_both_ends(order);
    improve(std::move(best));
    for (size_t i = 0; i < blocks_.size(); ++i) blocks_[i].offset = best_[i];
    return best_bytes_;
  }

 private:
  // By bytes, time and both; and by these among blocks that meet as high a sum of bytes: where most
  // must lie is packed before what lies around it (preorderings of Moffitt, MiniMalloc, 2023).
  std::vector<BlockOrder> first_orders() const {
    const auto length = [](const Block& b) { return static_cast<int64_t>(b.last - b.first + 1); };
    const auto area = [&](const Block& b) { return b.bytes * length(b); };
    const auto bytes = [](const Block& b) { return b.bytes; };
    const auto none = [](const Block&) { return int64_t{0}; };
    const auto sum = [&](const Block& b) {
      const auto begin = sums_.begin() + static_cast<std::ptrdiff_t>(b.first);
      return *std::max_element(begin, begin + length(b));
    };
    return {order_by(bytes, none),
            order_by(length, none),
            order_by(area, none),
            order_by([](const Block& b) { return -static_cast<int64_t>(b.first); }, none),
            order_by([](const Block& b) { return static_cast<int64_t>(b.last); }, none),
            order_by(sum, bytes),
            order_by(sum, length),
            order_by(sum, area)};
  }

  // Descending, of equal ones as they stand.
  BlockOrder order_by(const Key& key, const Key& then) const {
    std::vector<std::pair<int64_t, int64_t>> keys;
    for (const Block& block : blocks_) keys.emplace_back(key(block), then(block));
    BlockOrder order(blocks_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return keys[a] > keys[b]; });
    return order;
  }

  // Places in this order. The place in it of the block that does not fit below the best so far;
  // empty if all do: then that is the best.
  std::optional<size_t> attempt(const BlockOrder& order) {
    if (best_bytes_ == least_) return 0;
    std::vector<int64_t> offsets(blocks_.size());
    const auto failed = place(order, best_bytes_ - 1, offsets);
    if (failed) return failed;
    best_bytes_ = 0;
    for (size_t i = 0; i < blocks_.size(); ++i)
      best_bytes_ = std::max(best_bytes_, offsets[i] + blocks_[i].bytes);
    best_ = std::move(offsets);
    return std::nullopt;
  }

  // Each at the lowest free offset, as far as none ends above `most`.
  std::optional<size_t> place(const BlockOrder& order, int64_t most,
                              std::vector<int64_t>& offsets) {
    Placed placed(sums_.size());
    for (size_t at = 0; at < order.size(); ++at) {
      const Block& block = blocks_[order[at]];
      const int64_t offset = placed.lowest_free(block, compared_);
      if (offset + block.bytes > most) return at;
      offsets[order[at]] = offset;
      placed.add(block, offset);
    }
    return std::nullopt;
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
    std::vector<int64_t> offsets(blocks_.size());
    if (place(low, best_bytes_ - 1, offsets) || place(high, best_bytes_ - 1, offsets)) return;
    const int64_t bytes = together(low, high, offsets);
    if (bytes >= best_bytes_) return;
    for (const size_t i : high) offsets[i] = bytes - offsets[i] - blocks_[i].bytes;
    best_bytes_ = bytes;
    best_ = std::move(offsets);
  }

  static size_t time_of(const Block& block) { return (block.first + block.last) / 2; }
  bool is_long(const Block& block) const {
    return (block.last - block.first) * 8 > sums_.size() - 1;
  }
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
      std::vector<int64_t> height(sums_.size());
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

  // What does not fit below the best is placed before one of those that it lies beside, and all of
  // them anew (squeaky wheel optimization: Joslin and Clements, 1999).
  void improve(BlockOrder order) {
    std::mt19937 random(1);
    compared_ = 0;
    size_t compared_for_best = 0;
    while (best_bytes_ > least_ &&
           compared_ <= std::min(kMostComparisons, idle_ + 3 * compared_for_best)) {
      const auto failed = attempt(order);
      if (!failed) {
        compared_for_best = compared_;
        continue;
      }
      const size_t block = order[*failed];
      std::vector<size_t> beside;
      for (size_t at = 0; at < *failed; ++at)
        if (live_at_once(blocks_[order[at]], blocks_[block])) beside.push_back(at);
      const auto to = order.begin() + static_cast<std::ptrdiff_t>(beside[random() % beside.size()]);
      const auto from = order.begin() + static_cast<std::ptrdiff_t>(*failed);
      std::rotate(to, from, from + 1);
    }
  }

  std::vector<Block>& blocks_;
  const std::vector<int64_t> sums_;
  const int64_t least_;
  int64_t best_bytes_ = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> best_;  // offsets
  size_t compared_ = 0;        // pairs
  size_t idle_ = 0;            // so many without a denser one
};

}  // namespace

int64_t greatest_sum(const std::vector<Block>& blocks) { return std::ranges::max(sums_of(blocks)); }

int64_t place_blocks(std::vector<Block>& blocks) {
  if (blocks.empty()) return 0;
  return Placing(blocks).run();
}

}  // namespace kerf::partitioner
