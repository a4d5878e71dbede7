#include "partitioner/cuts/line_search.h"

#include <algorithm>
#include <map>

#include "partitioner/at.h"

namespace kerf::partitioner {
namespace {

// Sums of the same prices in another order differ by rounding.
constexpr double kRounding = 1e-12;

std::vector<int> ends_of(const std::vector<std::vector<int>>& from, int stages, int last) {
  std::vector<int> ends;
  for (int s = stages, j = last; s > 0; j = from[at(s - 1)][at(j)], --s) ends.push_back(j);
  std::reverse(ends.begin(), ends.end());
  return ends;
}

}  // namespace

LineSearch::LineSearch(const Line& line, const StageLimits& limits) : line_(line), limits_(limits) {
  std::map<std::pair<int, double>, std::vector<int>> known;
  for (int s = 0; s < stages(); ++s) {
    const std::pair key{limits.micro_batches[at(s)], limits.memory[at(s)]};
    const auto [found, is_new] = known.try_emplace(key);
    if (is_new && key.second == kNever)
      found->second.assign(at(line.size()), line.size());
    else if (is_new)
      found->second = line.ends_by_memory(key.first, key.second);
    memory_ends_.push_back(found->second);
    if (limits.ends.empty()) continue;
    for (size_t i = 0; i < memory_ends_.back().size(); ++i)
      memory_ends_.back()[i] = std::min(memory_ends_.back()[i], limits.ends[at(s)][i]);
  }
}

std::vector<std::vector<int>> LineSearch::ends_within(double price) const {
  std::map<int, std::vector<int>> by_type;
  std::vector<std::vector<int>> ends = memory_ends_;
  for (int s = 0; s < stages(); ++s) {
    const int type = limits_.device_type[at(s)];
    const auto [found, is_new] = by_type.try_emplace(type);
    if (is_new) found->second = line_.ends_by_price(type, price * (1 + kRounding));
    for (size_t i = 0; i < ends[at(s)].size(); ++i)
      ends[at(s)][i] = std::min(ends[at(s)][i], found->second[i]);
  }
  return ends;
}

// Which boundaries a stage can end at: those within the ends of a start that the one before it
// can end at.
bool LineSearch::reaches_the_end(const std::vector<std::vector<int>>& furthest_ends) const {
  const int n = line_.size();
  std::vector<bool> reached(at(n) + 1, false);
  reached[0] = true;
  for (const std::vector<int>& ends : furthest_ends) {
    std::vector<bool> next(at(n) + 1, false);
    int furthest = 0;
    for (int j = 1; j <= n; ++j) {
      if (reached[at(j - 1)]) furthest = std::max(furthest, ends[at(j - 1)]);
      next[at(j)] = j <= furthest;
    }
    reached = std::move(next);
  }
  return reached[at(n)];
}

double LineSearch::least_bottleneck(double bound, double enough) const {
  const std::vector<bool> all(at(line_.size()) + 1, false);
  if (!line_.prices_grow()) {
    const double least = scan(kNever, false, all).value;
    return least < enough ? least : kNever;
  }
  double high = enough;
  if (high == kNever) {
    high = 0;
    for (const int type : limits_.device_type)
      high = std::max(high, line_.work(type, 0, line_.size()));
    for (int p = 0; p < line_.size(); ++p)
      for (const Line::Change& change : line_.changes(p)) high += change.price;
    if (!reaches_the_end(ends_within(high))) return kNever;
  } else {
    high *= 1 - 1e-9;  // what is not better than that is not worth a search
    if (!reaches_the_end(ends_within(high))) return kNever;
  }
  double low = bound;
  if (low < high && reaches_the_end(ends_within(low))) return low;
  while (high - low > kRounding * high) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (reaches_the_end(ends_within(middle)) ? high : low) = middle;
  }
  return high;
}

Segmentation LineSearch::fewest_bytes(double bottleneck, bool keep_close) const {
  const std::vector<bool> forbidden =
      keep_close ? line_.parts_close() : std::vector<bool>(at(line_.size()) + 1, false);
  return line_.prices_grow() ? sweep(bottleneck, forbidden) : scan(bottleneck, true, forbidden);
}

// Stage by stage: a tree has, by start, the bytes so far and those that enter, for the starts whose
// segment may still grow; a value that the end passes raises the starts that would receive it.
Segmentation LineSearch::sweep(double price, const std::vector<bool>& forbidden) const {
  const int n = line_.size();
  std::vector<double> so_far(at(n) + 1, kNever);  // by boundary
  so_far[0] = 0;
  std::vector<std::vector<int>> from;
  for (const std::vector<int>& furthest : ends_within(price)) {
    LeastTree starts(n);
    std::vector<std::vector<int>> last_end(at(n) + 1);  // boundary -> starts that end there
    std::vector<double> next(at(n) + 1, kNever);
    std::vector<int>& start_of = from.emplace_back(at(n) + 1, -1);
    for (int p = 0; p < n; ++p) {
      for (const int start : last_end[at(p)]) starts.set(start, kNever);
      if (so_far[at(p)] < kNever && furthest[at(p)] > p) {
        starts.set(p, so_far[at(p)]);
        last_end[at(furthest[at(p)])].push_back(p);
      }
      for (const Line::Change& change : line_.changes(p))
        if (change.bytes != 0) starts.raise(change.first, change.last, change.bytes);
      if (forbidden[at(p + 1)]) continue;
      const LeastTree::Least least = starts.least();
      if (least.value == kNever) continue;
      next[at(p + 1)] = least.value;
      start_of[at(p + 1)] = least.leaf;
    }
    so_far = std::move(next);
  }
  if (so_far[at(n)] == kNever) return {};
  return {so_far[at(n)], ends_of(from, stages(), n)};
}

// Boundaries that divide the work into equal shares; all, where they are few.
std::vector<int> LineSearch::spread_boundaries(const std::vector<bool>& forbidden) const {
  const int n = line_.size();
  const double share = line_.work(0, 0, n) / kMostBoundaries;
  const int stride = n / kMostBoundaries + 1;
  std::vector<int> result{0};
  for (int b = 1; b < n; ++b) {
    const bool due = n <= kMostBoundaries || b - result.back() >= 2 * stride ||
                     line_.work(0, result.back(), b + 1) > 2 * share;
    if (due && !forbidden[at(b)]) result.push_back(b);
  }
  result.push_back(n);
  return result;
}

Segmentation LineSearch::scan(double price, bool of_bytes,
                              const std::vector<bool>& forbidden) const {
  const int n = line_.size();
  const int k = stages();
  const std::vector<int> boundaries = spread_boundaries(forbidden);
  const auto count = static_cast<int>(boundaries.size());
  std::vector<int> first_at(at(n) + 2);  // position -> the first boundary that is not before it
  for (int b = 0, p = 0; p <= n + 1; ++p) {
    while (b < count && boundaries[at(b)] < p) ++b;
    first_at[at(p)] = b;
  }
  std::vector<double> extra(at(count));  // by start: price without work, and bytes
  std::vector<double> bytes(at(count));
  std::vector<std::vector<double>> best(at(k) + 1, std::vector<double>(at(count), kNever));
  std::vector<std::vector<int>> from(at(k), std::vector<int>(at(count), -1));
  best[0][0] = 0;
  for (int b = 1; b < count; ++b) {
    const int end = boundaries[at(b)];
    for (int p = boundaries[at(b - 1)]; p < end; ++p)
      for (const Line::Change& change : line_.changes(p))
        for (int c = first_at[at(change.first)]; c < first_at[at(change.last + 1)]; ++c) {
          extra[at(c)] += change.price;
          bytes[at(c)] += change.bytes;
        }
    for (int s = 0; s < k; ++s) {
      double& least = best[at(s) + 1][at(b)];
      for (int c = s; c < b; ++c) {
        const double before = best[at(s)][at(c)];
        const int start = boundaries[at(c)];
        if (before >= least || end > memory_ends_[at(s)][at(start)]) continue;
        const double own = line_.work(limits_.device_type[at(s)], start, end) + extra[at(c)];
        if (of_bytes && own > price * (1 + kRounding)) continue;
        const double value = of_bytes ? before + bytes[at(c)] : std::max(before, own);
        if (value >= least) continue;
        least = value;
        from[at(s)][at(b)] = c;
      }
    }
  }
  Segmentation result{best[at(k)][at(count - 1)], {}};
  if (!result.found()) return {};
  for (const int b : ends_of(from, k, count - 1)) result.ends.push_back(boundaries[at(b)]);
  return result;
}

}  // namespace kerf::partitioner
