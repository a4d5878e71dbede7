#include "partitioner/cuts/feature_patterns.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kerf::partitioner {

using ops::IndexSet;
using ops::Range;

std::vector<IndexSet> block_cyclic_sets(int64_t units, int workers, int64_t block) {
  std::vector<std::vector<Range>> ranges(static_cast<size_t>(workers));
  for (int64_t begin = 0, turn = 0; begin < units; begin += block, ++turn)
    ranges[static_cast<size_t>(turn % workers)].push_back(
        {begin, begin + std::min(block, units - begin)});
  std::vector<IndexSet> sets;
  for (std::vector<Range>& of_worker : ranges)
    sets.push_back(IndexSet(std::move(of_worker)).normalized(units));
  return sets;
}

std::vector<IndexSet> proportional_sets(int64_t units, const std::vector<double>& weights) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<IndexSet> sets;
  double sum = 0;
  int64_t begin = 0;
  for (size_t worker = 0; worker < weights.size(); ++worker) {
    sum += weights[worker];
    const bool last = worker + 1 == weights.size();
    const int64_t end =
        last ? units : std::llround(static_cast<double>(units) * std::min(1.0, sum / all));
    std::vector<Range> range;
    if (end > begin) range.push_back({begin, end});
    sets.push_back(IndexSet(std::move(range)).normalized(units));
    begin = std::max(begin, end);
  }
  return sets;
}

std::vector<IndexSet> shares_of(int64_t units, std::span<const int> parts,
                                const std::vector<double>& speeds) {
  std::vector<double> weights;
  for (const int part : parts)
    weights.push_back(part >= 0 && part < std::ssize(speeds) ? speeds[static_cast<size_t>(part)]
                                                             : 1);
  const auto other = [&](double weight) { return weight != weights.front(); };
  if (std::none_of(weights.begin(), weights.end(), other))
    return ops::split_evenly(units, static_cast<int>(parts.size()));
  return proportional_sets(units, weights);
}

std::vector<double> PlanRequest::speeds_of_parts() const {
  std::vector<double> speeds;
  if (speed.capacities.empty()) return speeds;
  for (int part = 0; part < workers; ++part)
    speeds.push_back(speed.capacities.speed_of(worker_of(part)));
  return speeds;
}

}  // namespace kerf::partitioner
