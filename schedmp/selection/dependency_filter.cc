#include "schedmp/selection/dependency_filter.h"

#include <algorithm>
#include <cmath>

#include "runtime/error.h"

namespace kerf::schedmp {

DependencyFilter::DependencyFilter(const DependencyOptions& options)
    : options_(options), correlations_(options.most_pairs) {
  if (!(options.threshold >= 0 && options.threshold < 1))
    throw Error(ErrorCode::kUsage, format("a threshold of {} for correlations: take one from 0 up "
                                          "to 1; 0.2 to 0.3 is a good one",
                                          options.threshold));
  if (options.patience < 0)
    throw Error(ErrorCode::kUsage,
                format("a patience of {} sets: take 0 or more", options.patience));
}

void DependencyFilter::queue(std::span<const int64_t> candidates) {
  for (const int64_t variable : candidates) waiting_.push_back({.variable = variable});
}

bool DependencyFilter::independent(int64_t variable, std::span<const int64_t> others) {
  // With itself no variable has a correlation that is known.
  return std::all_of(others.begin(), others.end(), [&](int64_t other) {
    const auto correlation = correlations_.find(variable, other);
    return correlation && std::abs(*correlation) <= options_.threshold;
  });
}

bool DependencyFilter::may_join(const Candidate& candidate, std::span<const int64_t> set,
                                std::span<const int64_t> elders) {
  const int64_t variable = candidate.variable;
  return independent(variable, set) && independent(variable, elders) &&
         std::all_of(in_flight_.begin(), in_flight_.end(), [&](const auto& each) {
           const InFlight& other = each.second;
           return other.number >= candidate.independent_from ||
                  independent(variable, other.variables);
         });
}

std::vector<int64_t> DependencyFilter::accept(int64_t id, int64_t most) {
  KERF_CHECK(!in_flight_.contains(id), "set {} is in flight already", id);
  std::vector<int64_t> set, elders;
  std::deque<Candidate> left;
  for (Candidate& candidate : waiting_) {
    const bool full = std::ssize(set) >= most;
    if (!full && may_join(candidate, set, elders)) {
      set.push_back(candidate.variable);
      continue;
    }
    if (candidate.passed_over >= options_.patience) {
      elders.push_back(candidate.variable);
      // In front, it stays there, and all that join are behind it.
      if (set.empty() && left.empty())
        candidate.independent_from = std::min(candidate.independent_from, sets_);
    }
    if (!full) ++candidate.passed_over;
    left.push_back(candidate);
  }
  waiting_ = std::move(left);
  if (!set.empty()) in_flight_[id] = {sets_++, set};
  return set;
}

void DependencyFilter::retire(int64_t id) {
  KERF_CHECK(in_flight_.erase(id) == 1, "set {} retires, but it was not in flight", id);
}

WantedPairs DependencyFilter::wanted(int64_t most_correlations) {
  KERF_CHECK(most_correlations >= 1, "a block of {} correlations", most_correlations);
  std::vector<int64_t> others;  // that the next candidate must not depend on
  for (const auto& [id, set] : in_flight_)
    others.insert(others.end(), set.variables.begin(), set.variables.end());
  std::vector<uint8_t> is_column(others.size() + waiting_.size());
  WantedPairs block;
  for (const Candidate& candidate : waiting_) {
    const int64_t variable = candidate.variable;
    std::vector<size_t> unknown;  // places in others
    for (size_t i = 0; i < others.size(); ++i)
      if (others[i] != variable && correlations_.is_missing(variable, others[i]))
        unknown.push_back(i);
    others.push_back(variable);
    if (unknown.empty()) continue;
    const int64_t rows = std::ssize(block.rows) + 1;
    // The first row asks for what fits, at least.
    if (rows == 1 && std::ssize(unknown) > most_correlations)
      unknown.resize(static_cast<size_t>(most_correlations));
    const int64_t added = std::count_if(unknown.begin(), unknown.end(),
                                        [&](size_t place) { return is_column[place] == 0; });
    if (rows > 1 && rows * (std::ssize(block.columns) + added) > most_correlations) break;
    block.rows.push_back(variable);
    for (const size_t place : unknown) {
      correlations_.expect(variable, others[place]);
      if (is_column[place] == 0) block.columns.push_back(others[place]);
      is_column[place] = 1;
    }
  }
  return block;
}

void DependencyFilter::learn(const GramBlock& block) {
  KERF_CHECK(block.correlations.size() == block.rows.size() * block.columns.size(),
             "a block of {} x {} has {} correlations", block.rows.size(), block.columns.size(),
             block.correlations.size());
  auto next = block.correlations.begin();
  for (const int64_t row : block.rows)
    for (const int64_t column : block.columns) {
      const double correlation = *next++;
      if (row == column) continue;
      if (!std::isfinite(correlation))
        throw Error(ErrorCode::kUsage,
                    format("the correlation of variables {} and {} is {}: a column of zeros has "
                           "none, leave it out; other columns must be finite",
                           row, column, correlation));
      correlations_.learn(row, column, correlation);
    }
}

}  // namespace kerf::schedmp
