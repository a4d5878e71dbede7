#include "partitioner/line_splits.h"

#include <algorithm>
#include <cmath>

#include "partitioner/at.h"
#include "partitioner/cost_graph.h"
#include "partitioner/model_graph.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {

namespace {

constexpr double kBeyond = 1e300;
constexpr int kMostLimits = 32;
constexpr double kMostOperations = 2e8;     // of all limits together
constexpr int kMostSplitBoundaries = 3000;  // that are looked at
constexpr double kMostOfOne = 1e9;          // operations of one split

std::vector<int> even_split(int nodes, int stages) {
  std::vector<int> ends;
  for (int64_t s = 1; s <= stages; ++s) ends.push_back(static_cast<int>(s * nodes / stages));
  return ends;
}

// Stage by stage, the least of what `join` makes of the stages before and one of [i, j); empty
// where every way is beyond.
template <class Join>
std::vector<int> least_split(int nodes, int stages, const Join& join) {
  std::vector<double> least(at(nodes) + 1, kBeyond);  // by boundary
  least[0] = 0;
  std::vector<std::vector<int>> from;
  for (int s = 0; s < stages; ++s) {
    std::vector<double> next(at(nodes) + 1, kBeyond);
    std::vector<int>& start = from.emplace_back(at(nodes) + 1, -1);
    for (int j = s + 1; j <= nodes; ++j)
      for (int i = s; i < j; ++i) {
        if (least[at(i)] >= kBeyond) continue;
        const double value = join(least[at(i)], i, j);
        if (value >= next[at(j)]) continue;
        next[at(j)] = value;
        start[at(j)] = i;
      }
    least = std::move(next);
  }
  if (least[at(nodes)] >= kBeyond) return {};
  std::vector<int> ends;
  for (int s = stages, j = nodes; s > 0; j = from[at(--s)][at(j)]) ends.push_back(j);
  std::reverse(ends.begin(), ends.end());
  return ends;
}

double largest_stage(const Chain& chain, const std::vector<int>& ends) {
  double most = 0;
  int begin = 0;
  for (const int end : ends) {
    most = std::max(most, chain.work(begin, end) + chain.wire[at(begin)]);
    begin = end;
  }
  return most;
}

// What a stage may take, with what it receives: all there are from the least up to twice that, or
// so many of them, evenly.
std::vector<double> limits_of(const Chain& chain, int stages, double least) {
  std::vector<double> all;
  for (int i = 0; i < chain.nodes(); ++i)
    for (int j = i + 1; j <= chain.nodes(); ++j) {
      const double own = chain.work(i, j) + chain.wire[at(i)];
      if (own >= least && own <= 2 * least) all.push_back(own);
    }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  const double each = static_cast<double>(stages) * chain.nodes() * chain.nodes();
  const auto most = static_cast<size_t>(std::clamp(kMostOperations / each, 1.0, 1.0 * kMostLimits));
  if (all.size() <= most) return all;
  std::vector<double> spread;
  for (size_t i = 0; i < most; ++i) spread.push_back(all[i * all.size() / most]);
  return spread;
}

// Boundaries to look at: all, or where they are many, those that divide the work into equal shares.
std::vector<int> spread_boundaries(const Chain& chain, int stages) {
  const int nodes = chain.nodes();
  const int most = std::clamp(static_cast<int>(std::sqrt(kMostOfOne / stages)), 2 * stages,
                              std::max(2 * stages, kMostSplitBoundaries));
  const double share = chain.before.back() / most;
  const int stride = nodes / most + 1;
  std::vector<int> result{0};
  for (int b = 1; b < nodes; ++b)
    if (nodes <= most || b - result.back() >= 2 * stride ||
        chain.work(result.back(), b + 1) > 2 * share)
      result.push_back(b);
  result.push_back(nodes);
  return result;
}

Chain thinned(const Chain& chain, const std::vector<int>& boundaries) {
  Chain result;
  for (const int boundary : boundaries) {
    result.before.push_back(chain.before[at(boundary)]);
    result.wire.push_back(chain.wire[at(boundary)]);
  }
  return result;
}

}  // namespace

Chain chain_of(const Model& model, const PlanRequest& request) {
  Chain chain;
  chain.before.push_back(0);
  for (NodeId node = 0; node < model.nodes(); ++node) {
    const ops::Box whole = whole_division(model, node, 0).shares[0].box;
    chain.before.push_back(chain.before.back() + node_work(model, request, node, whole).total());
  }
  chain.wire.resize(chain.before.size());
  std::vector<double> begins(chain.before.size());  // by boundary: the first that a value crosses
  std::vector<double> ends(chain.before.size());    // the last
  const CostGraph graph = cost_graph_of(model, request);
  for (const CostValue& value : graph.values()) {
    if (value.readers.empty()) continue;
    const int last = *std::max_element(value.readers.begin(), value.readers.end());
    begins[at(value.producer) + 1] += value.enter;
    ends[at(last)] += value.enter;
  }
  double now = 0;
  for (size_t boundary = 0; boundary < begins.size(); ++boundary) {
    now += begins[boundary];
    chain.wire[boundary] = std::max(0.0, now);  // sums leave rounding
    now -= ends[boundary];
  }
  return chain;
}

std::vector<std::vector<int>> first_splits(const Chain& whole, int stages) {
  std::vector<std::vector<int>> splits{even_split(whole.nodes(), stages)};
  const std::vector<int> boundaries = spread_boundaries(whole, stages);
  const Chain chain = thinned(whole, boundaries);
  const int nodes = chain.nodes();
  const auto add = [&](std::vector<int> split) {
    for (int& end : split) end = boundaries[at(end)];
    if (!split.empty() && std::find(splits.begin(), splits.end(), split) == splits.end())
      splits.push_back(std::move(split));
  };
  add(least_split(nodes, stages, [&](double before, int i, int j) {
    return std::max({before, chain.work(i, j), chain.wire[at(i)]});
  }));
  const std::vector<int> fastest = least_split(nodes, stages, [&](double before, int i, int j) {
    return std::max(before, chain.work(i, j) + chain.wire[at(i)]);
  });
  add(fastest);
  for (const double limit : limits_of(chain, stages, largest_stage(chain, fastest)))
    add(least_split(nodes, stages, [&](double before, int i, int j) {
      const bool within = chain.work(i, j) + chain.wire[at(i)] <= limit;
      return within ? before + chain.wire[at(i)] : kBeyond;
    }));
  return splits;
}

}  // namespace kerf::partitioner
