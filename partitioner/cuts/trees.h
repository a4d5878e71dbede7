// Two trees over positions, for the layer cut's sweeps: O(log n) a question. Not for threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace kerf::partitioner {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

// Sums of prefixes. Inner nodes are always the sum of their children, so that adding and clearing
// leave no rounding behind.
class SumTree {
 public:
  explicit SumTree(const std::vector<double>& leaves) : count_(leaves.size()) {
    while (leaves_ < count_) leaves_ *= 2;
    sums_.resize(2 * leaves_);
    std::copy(leaves.begin(), leaves.end(), sums_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    for (size_t node = leaves_; node-- > 1;) sums_[node] = sums_[2 * node] + sums_[2 * node + 1];
  }

  void add(int leaf, double value) { put(leaf, sums_[place(leaf)] + value); }
  void clear(int leaf) { put(leaf, 0); }

  // How many of the first leaves add up to at most `limit`.
  int furthest(double limit) const {
    if (sums_[1] <= limit) return static_cast<int>(count_);
    size_t node = 1;
    double left = limit;
    while (node < leaves_) {
      node *= 2;
      if (sums_[node] > left) continue;
      left -= sums_[node];
      ++node;
    }
    return static_cast<int>(std::min(node - leaves_, count_));
  }

 private:
  size_t place(int leaf) const { return leaves_ + static_cast<size_t>(leaf); }
  void put(int leaf, double value) {
    size_t node = place(leaf);
    sums_[node] = value;
    while (node /= 2) sums_[node] = sums_[2 * node] + sums_[2 * node + 1];
  }

  size_t count_;
  size_t leaves_ = 1;
  std::vector<double> sums_;
};

// Values of which ranges are raised at once, and of which the least is asked for.
class LeastTree {
 public:
  struct Least {
    double value = kNever;
    int leaf = -1;
  };

  // All leaves are kNever.
  explicit LeastTree(int count) {
    while (leaves_ < static_cast<size_t>(count)) leaves_ *= 2;
    least_.assign(2 * leaves_, kNever);
    raised_.assign(2 * leaves_, 0);
  }

  void set(int leaf, double value) {
    size_t node = leaves_ + static_cast<size_t>(leaf);
    double above = 0;
    for (size_t parent = node / 2; parent > 0; parent /= 2) above += raised_[parent];
    raised_[node] = 0;
    least_[node] = value - above;
    while (node /= 2) pull(node);
  }
  // Of the leaves from `first` to `last`, both included; kNever stays.
  void raise(int first, int last, double value) {
    size_t a = leaves_ + static_cast<size_t>(first);
    size_t b = leaves_ + static_cast<size_t>(last);
    const size_t left = a;
    const size_t right = b;
    for (++b; a < b; a /= 2, b /= 2) {
      if (a % 2 == 1) lift(a++, value);
      if (b % 2 == 1) lift(--b, value);
    }
    for (size_t node = left / 2; node > 0; node /= 2) pull(node);
    for (size_t node = right / 2; node > 0; node /= 2) pull(node);
  }
  // Of equals the first leaf.
  Least least() const {
    if (least_[1] == kNever) return {};
    size_t node = 1;
    while (node < leaves_) {
      node *= 2;
      if (least_[node + 1] < least_[node]) ++node;
    }
    return {least_[1], static_cast<int>(node - leaves_)};
  }

 private:
  void lift(size_t node, double value) {
    least_[node] += value;
    raised_[node] += value;
  }
  void pull(size_t node) {
    least_[node] = std::min(least_[2 * node], least_[2 * node + 1]) + raised_[node];
  }

  size_t leaves_ = 1;
  std::vector<double> least_;   // of a node's leaves, all that was raised within it included
  std::vector<double> raised_;  // of all leaves of a node at once
};

}  // namespace kerf::partitioner
