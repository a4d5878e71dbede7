#include "partitioner/ideals.h"

#include <algorithm>
#include <unordered_map>

#include "partitioner/at.h"
#include "partitioner/orders.h"

namespace kerf::partitioner {
namespace {

constexpr int kMostUnits = 1 << 14;  // whose reachability is 32 MiB
// Of units that may come next: pairs that are compared for each ideal asked for, and all that are
// kept.
constexpr size_t kPairsOfIdeal = 25'000;
constexpr size_t kMostKept = size_t{1} << 27;

// Which ranks follow from which, a bit each.
class Reachable {
 public:
  explicit Reachable(const std::vector<std::vector<int>>& next)
      : words_((next.size() + 63) / 64), bits_(words_ * next.size()) {
    for (size_t u = next.size(); u-- > 0;)
      for (const int v : next[u]) {
        bits_[u * words_ + at(v) / 64] |= uint64_t{1} << (at(v) % 64);
        for (size_t w = at(v) / 64; w < words_; ++w)
          bits_[u * words_ + w] |= bits_[at(v) * words_ + w];
      }
  }
  bool operator()(int from, int to) const {
    return (bits_[at(from) * words_ + at(to) / 64] >> (at(to) % 64)) & 1;
  }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

struct HashOfRanks {
  size_t operator()(const std::vector<int>& ranks) const {
    uint64_t hash = 0x9e3779b97f4a7c15;
    for (const int rank : ranks) {
      hash ^= static_cast<uint64_t>(rank) + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
      hash *= 0xff51afd7ed558ccd;
    }
    return hash;
  }
};

}  // namespace

std::optional<Ideals> Ideals::of(const Units& units, size_t most) {
  if (units.size() > kMostUnits || at(units.size()) >= most) return std::nullopt;
  const std::vector<int> order = first_order(units);
  Ideals result;
  result.rank_.resize(order.size());
  for (size_t r = 0; r < order.size(); ++r) result.rank_[at(order[r])] = static_cast<int>(r);
  std::vector<std::vector<int>> next(order.size());  // by rank
  std::vector<bool> first(order.size(), true);
  for (size_t r = 0; r < order.size(); ++r) {
    const auto [begin, end] = boost::out_edges(at(order[r]), units.before);
    for (auto edge = begin; edge != end; ++edge) {
      next[r].push_back(result.rank_[boost::target(*edge, units.before)]);
      first[at(next[r].back())] = false;
    }
  }
  const Reachable follows(next);

  std::vector<int> ready;  // ranks of what an ideal may take next
  for (size_t r = 0; r < order.size(); ++r)
    if (first[r]) ready.push_back(static_cast<int>(r));
  std::unordered_map<std::vector<int>, int, HashOfRanks> known;
  std::vector<const std::vector<int>*> by_number;
  const auto number_of = [&](std::vector<int> key, int unit, int from) {
    const auto [found, is_new] = known.try_emplace(std::move(key), static_cast<int>(known.size()));
    if (is_new) {
      by_number.push_back(&found->first);
      result.made_by_.push_back({unit, from});
    }
    return found->second;
  };
  number_of(ready, -1, -1);
  result.from_.push_back(0);
  size_t pairs = 0;
  size_t kept = 0;
  for (size_t i = 0; i < by_number.size(); ++i) {
    const std::vector<int>& now = *by_number[i];
    pairs += now.size() * now.size();
    kept += now.size();
    if (by_number.size() > most || pairs > kPairsOfIdeal * most || kept > kMostKept)
      return std::nullopt;
    for (const int taken : now) {
      ready.clear();
      for (const int other : now)
        if (other != taken) ready.push_back(other);
      for (const int candidate : next[at(taken)])
        if (std::none_of(now.begin(), now.end(),
                         [&](int other) { return other != taken && follows(other, candidate); }) &&
            // Not by way of another that follows what was taken.
            std::none_of(next[at(taken)].begin(), next[at(taken)].end(),
                         [&](int other) { return follows(other, candidate); }))
          ready.push_back(candidate);
      std::sort(ready.begin(), ready.end());
      const int unit = order[at(taken)];
      result.steps_.push_back({unit, number_of(ready, unit, static_cast<int>(i))});
    }
    result.from_.push_back(result.steps_.size());
  }
  return result;
}

std::vector<int> Ideals::units_in(int ideal) const {
  std::vector<int> units;
  for (int i = ideal; i > 0; i = made_by_[at(i)].ideal) units.push_back(made_by_[at(i)].unit);
  std::reverse(units.begin(), units.end());
  return units;
}

}  // namespace kerf::partitioner
