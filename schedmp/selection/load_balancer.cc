#include "schedmp/selection/load_balancer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "runtime/error.h"

namespace kerf::schedmp {
namespace {

bool is_amount(double value) { return std::isfinite(value) && value >= 0; }

// Places of the weights, the heaviest first; of equal ones in their order.
std::vector<size_t> by_falling(std::span<const double> weights) {
  std::vector<size_t> places(weights.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::stable_sort(places.begin(), places.end(),
                   [&](size_t a, size_t b) { return weights[a] > weights[b]; });
  return places;
}

// By longest processing time first: the worker of each weight.
std::vector<size_t> owners(std::span<const double> weights, std::span<const double> pace) {
  // When a worker finishes, and of how many: of two that finish together, who has fewer is first.
  using Finish = std::pair<double, int64_t>;
  std::vector<Finish> finish(pace.size());
  std::vector<size_t> owner(weights.size());
  for (const size_t place : by_falling(weights)) {
    std::vector<Finish> with_it = finish;
    for (size_t worker = 0; worker < pace.size(); ++worker) {
      with_it[worker].first += weights[place] * pace[worker];
      ++with_it[worker].second;
    }
    const auto earliest = std::min_element(with_it.begin(), with_it.end());
    owner[place] = static_cast<size_t>(earliest - with_it.begin());
    finish[owner[place]] = *earliest;
  }
  return owner;
}

}  // namespace

LoadBalancer::LoadBalancer(int workers, double decay) : decay_(decay) {
  if (workers < 1)
    throw Error(ErrorCode::kUsage, format("nothing can be divided over {} workers", workers));
  if (!(decay >= 0 && decay < 1))
    throw Error(ErrorCode::kUsage,
                format("a decay of {}: take one from 0, which remembers the last measurement "
                       "alone, up to 1; {} is a good one",
                       decay, kDecay));
  sums_.resize(static_cast<size_t>(workers));
}

void LoadBalancer::measured(int worker, double weight, double seconds) {
  KERF_CHECK(worker >= 0 && worker < std::ssize(sums_), "worker {} of {}", worker, sums_.size());
  KERF_CHECK(is_amount(weight) && is_amount(seconds), "worker {} took {} s for a weight of {}",
             worker, seconds, weight);
  Sums& sums = sums_[static_cast<size_t>(worker)];
  sums = {decay_ * sums.weight + weight, decay_ * sums.seconds + seconds};
}

double LoadBalancer::seconds_per_weight(int worker) const {
  KERF_CHECK(worker >= 0 && worker < std::ssize(sums_), "worker {} of {}", worker, sums_.size());
  const Sums& own = sums_[static_cast<size_t>(worker)];
  if (own.measured()) return own.seconds / own.weight;
  double sum = 0;
  int count = 0;
  for (const Sums& each : sums_)
    if (each.measured()) {
      sum += each.seconds / each.weight;
      ++count;
    }
  return count == 0 ? 1 : sum / count;
}

std::vector<std::vector<int64_t>> LoadBalancer::divide(std::span<const int64_t> variables,
                                                       std::span<const double> weights) const {
  KERF_CHECK(variables.size() == weights.size(), "{} variables have {} weights", variables.size(),
             weights.size());
  for (size_t i = 0; i < weights.size(); ++i)
    if (!is_amount(weights[i]))
      throw Error(ErrorCode::kUsage, format("variable {} weighs {}; weights are finite and not "
                                            "negative",
                                            variables[i], weights[i]));
  std::vector<double> pace;
  for (int worker = 0; worker < std::ssize(sums_); ++worker)
    pace.push_back(seconds_per_weight(worker));
  const std::vector<size_t> owner = owners(weights, pace);
  std::vector<std::vector<int64_t>> divided(sums_.size());
  for (size_t place = 0; place < owner.size(); ++place)
    divided[owner[place]].push_back(variables[place]);
  return divided;
}

}  // namespace kerf::schedmp
