// The best division of a sequence into segments, by dynamic programming: the heart of the layer and
// the hybrid cut. Exact; O(k n^2) prices at most, and those of long segments only where they could
// still win. Pure functions; no threads.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

namespace kerf::partitioner {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

struct Segmentation {
  double value = kNever;  // kNever: there is none
  std::vector<int> ends;  // of each segment, exclusive
};

// How the prices of segments make that of a division.
inline double larger(double a, double b) { return std::max(a, b); }
inline double sum(double a, double b) { return a + b; }

// The best division of 0..n into k non-empty segments, where weight(s, i, j) is the price of
// segment [i, j) as number s, combine(so far, price) the price of both, and floor(s, i, j) what
// [i, j) and every segment that contains it cost at least. Of equals the longest last segment wins.
template <class Weight, class Floor, class Combine>
Segmentation divide(int n, int k, const Weight& weight, const Floor& floor, const Combine& combine) {
  const auto at = [row = static_cast<size_t>(n) + 1](int s, int j) {
    return static_cast<size_t>(s) * row + static_cast<size_t>(j);
  };
  std::vector<double> best(at(k, n) + 1, kNever);
  std::vector<int> from(best.size(), -1);
  best[at(0, 0)] = 0;
  for (int s = 1; s <= k; ++s) {
    int first = s - 1;  // segments that begin before are too long
    for (int j = s; j <= n - (k - s); ++j) {
      double& least = best[at(s, j)];
      for (int i = j - 1; i >= first; --i) {
        const double before = best[at(s - 1, i)];
        if (before == kNever) continue;
        const double longer = floor(s - 1, i, j);
        if (longer == kNever) first = i + 1;
        if (longer == kNever || longer > least) break;
        if (before > least) continue;
        const double value = combine(before, weight(s - 1, i, j));
        if (value == kNever || value > least) continue;
        least = value;
        from[at(s, j)] = i;
      }
    }
  }
  Segmentation result{best[at(k, n)], {}};
  if (result.value == kNever) return result;
  for (int s = k, j = n; s > 0; j = from[at(s, j)], --s) result.ends.push_back(j);
  std::reverse(result.ends.begin(), result.ends.end());
  return result;
}

}  // namespace kerf::partitioner
