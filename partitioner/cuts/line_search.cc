#include "partitioner/cuts/line_search.h"

#include <algorithm>
#include <map>
#include <tuple>

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

void lower(std::vector<int>& ends, const std::vector<int>& others) {
  for (size_t i = 0; i < ends.size(); ++i) ends[i] = std::min(ends[i], others[i]);
}

}  // namespace

LineSearch::LineSearch(const Line& line, const StageLimits& limits) : line_(line), limits_(limits) {
  std::map<std::tuple<int, double, int>, int> known;
  for (int s = 0; s < stages(); ++s) {
    const int own = limits.rules == nullptr ? -1 : limits.worker[at(s)];
    const std::tuple key{limits.micro_batches[at(s)], limits.memory[at(s)], own};
    const auto [found, is_new] = known.try_emplace(key, static_cast<int>(known.size()));
    memory_ends_.of.push_back(found->second);
    if (!is_new) continue;
    std::vector<int>& ends = memory_ends_.each.emplace_back(at(line.size()), line.size());
    if (limits.memory[at(s)] < kNever)
      ends = line.ends_by_memory(limits.micro_batches[at(s)], limits.memory[at(s)]);
    if (own >= 0) lower(ends, limits.rules->ends_on(own, line.order()));
  }
}

LineSearch::FurthestEnds LineSearch::ends_within(double price) const {
  std::map<int, std::vector<int>> by_type;
  std::map<std::pair<int, int>, int> known;
  FurthestEnds result;
  for (int s = 0; s < stages(); ++s) {
    const int type = limits_.device_type[at(s)];
    const auto [found, is_new] =
        known.try_emplace({memory_ends_.of[at(s)], type}, static_cast<int>(known.size()));
    result.of.push_back(found->second);
    if (!is_new) continue;
    const auto [by_price, first_of_type] = by_type.try_emplace(type);
    if (first_of_type) by_price->second = line_.ends_by_price(type, price * (1 + kRounding));
    lower(result.each.emplace_back(memory_ends_.of_stage(s)), by_price->second);
  }
  return result;
}

// Which boundaries a stage can end at: those within the ends of a start that the one before it
// can end at.
bool LineSearch::reaches_the_end(const FurthestEnds& furthest_ends) const {
  const int n = line_.size();
  std::vector<bool> reached(at(n) + 1, false);  // by the stage before, from `first` to `last`
  std::vector<bool> next(at(n) + 1, false);
  reached[0] = true;
  int first = 0;
  int last = 0;
  for (int s = 0; s < stages(); ++s) {
    const std::vector<int>& ends = furthest_ends.of_stage(s);
    int furthest = 0;
    int next_first = -1;
    int next_last = -1;
    for (int j = first + 1; j <= n && (j <= last + 1 || j <= furthest); ++j) {
      if (reached[at(j - 1)]) furthest = std::max(furthest, ends[at(j - 1)]);
      if (j > furthest) continue;
      next[at(j)] = true;
      if (next_first < 0) next_first = j;
      next_last = j;
    }
    if (next_first < 0) return false;
    std::fill(reached.begin() + first, reached.begin() + last + 1, false);
    std::swap(reached, next);
    first = next_first;
    last = next_last;
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

// Stage by stage.
Segmentation LineSearch::sweep(double price, const std::vector<bool>& forbidden) const {
  const int n = line_.size();
  const FurthestEnds ends = ends_within(price);
  std::vector<Reached> reached{{0, {0}, {-1}}};
  for (int s = 0; s < stages(); ++s) {
    reached.push_back(sweep_stage(reached.back(), ends.of_stage(s), forbidden));
    if (reached.back().bytes.empty()) return {};
  }
  const Reached& whole = reached.back();
  if (whole.last() < n || whole.bytes.back() == kNever) return {};
  Segmentation result{whole.bytes.back(), {}};
  for (int s = stages(), j = n; s > 0; --s) {
    result.ends.push_back(j);
    j = reached[at(s)].starts[at(j - reached[at(s)].first)];
  }
  std::reverse(result.ends.begin(), result.ends.end());
  return result;
}

// A tree has, by start, the bytes so far and those that enter, for the starts whose segment may
// still grow; a value that the end passes raises the starts that would receive it.
LineSearch::Reached LineSearch::sweep_stage(const Reached& before, const std::vector<int>& furthest,
                                            const std::vector<bool>& forbidden) const {
  const int first = before.first;
  const auto begins = [&](int p) {
    return p <= before.last() && p < line_.size() && before.bytes[at(p - first)] < kNever;
  };
  int last = first;
  for (int p = first; p <= before.last(); ++p)
    if (begins(p)) last = std::max(last, furthest[at(p)]);
  LeastTree starts(before.last() - first + 1);
  std::vector<std::vector<int>> last_end(at(last - first) +
                                         1);  // boundary -> starts that end there
  Reached next{first + 1, std::vector<double>(at(last - first), kNever),
               std::vector<int>(at(last - first), -1)};
  for (int p = first; p < last; ++p) {
    for (const int start : last_end[at(p - first)]) starts.set(start, kNever);
    if (begins(p) && furthest[at(p)] > p) {
      starts.set(p - first, before.bytes[at(p - first)]);
      last_end[at(furthest[at(p)] - first)].push_back(p - first);
    }
    for (const Line::Change& change : line_.changes(p)) {
      const int from = std::max(change.first, first);
      const int to = std::min(change.last, before.last());
      if (change.bytes != 0 && from <= to) starts.raise(from - first, to - first, change.bytes);
    }
    if (forbidden[at(p + 1)]) continue;
    const LeastTree::Least least = starts.least();
    if (least.value == kNever) continue;
    next.bytes[at(p - first)] = least.value;
    next.starts[at(p - first)] = first + least.leaf;
  }
  return next;
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
        if (before >= least || end > memory_ends_.of_stage(s)[at(start)]) continue;
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
