#include "schedmp/variables/load_balancer.h"

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
    const auto with_it = [&](size_t worker) {
      return Finish{finish[worker].first + weights[place] * pace[worker],
                    finish[worker].second + 1};
    };
    size_t earliest = 0;
    for (size_t worker = 1; worker < pace.size(); ++worker)
      if (with_it(worker) < with_it(earliest)) earliest = worker;
    owner[place] = earliest;
    finish[earliest] = with_it(earliest);
  }
  return owner;
}

// Of each worker and those before it, in units of the fastest one's.
std::vector<double> sums_of_speeds(const std::vector<double>& pace) {
  const double fastest = *std::min_element(pace.begin(), pace.end());
  std::vector<double> sums;
  double sum = 0;
  for (const double each : pace) sums.push_back(sum += fastest / each);
  return sums;
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
  if (weight == 0) return;
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

std::vector<double> LoadBalancer::pace() const {
  std::vector<double> pace;
  for (int worker = 0; worker < std::ssize(sums_); ++worker)
    pace.push_back(seconds_per_weight(worker));
  return pace;
}

void LoadBalancer::fade(size_t worker) {
  Sums& own = sums_[worker];
  if (!own.measured()) return;
  const double seconds = own.seconds;
  own.seconds = 0;  // now it has the others' pace
  own.seconds =
      decay_ * seconds + (1 - decay_) * own.weight * seconds_per_weight(static_cast<int>(worker));
}

std::vector<std::vector<int64_t>> LoadBalancer::divide(std::span<const int64_t> variables,
                                                       std::span<const double> weights) {
  KERF_CHECK(variables.size() == weights.size(), "{} variables have {} weights", variables.size(),
             weights.size());
  for (size_t i = 0; i < weights.size(); ++i)
    if (!is_amount(weights[i]))
      throw Error(ErrorCode::kUsage, format("variable {} weighs {}; weights are finite and not "
                                            "negative",
                                            variables[i], weights[i]));
  const std::vector<size_t> owner = owners(weights, pace());
  std::vector<std::vector<int64_t>> divided(sums_.size());
  for (size_t place = 0; place < owner.size(); ++place)
    divided[owner[place]].push_back(variables[place]);
  for (size_t worker = 0; worker < divided.size(); ++worker)
    if (divided[worker].empty()) fade(worker);
  return divided;
}

std::vector<int64_t> LoadBalancer::borders(std::span<const int64_t> weights) const {
  const auto workers = std::ssize(sums_), count = std::ssize(weights);
  KERF_CHECK(count >= workers, "{} over {} workers", count, workers);
  const auto all = static_cast<double>(std::accumulate(weights.begin(), weights.end(), int64_t{0}));
  const std::vector<double> speed_up_to = sums_of_speeds(pace());
  std::vector<int64_t> borders = {0};
  int64_t end = 0, behind = 0;
  for (int64_t worker = 0; worker + 1 < workers; ++worker) {
    const auto enough =
        static_cast<int64_t>(all * speed_up_to[static_cast<size_t>(worker)] / speed_up_to.back());
    const int64_t begin = end;
    const int64_t last = count - (workers - 1 - worker);  // others need one each
    while (end < last && (end == begin || behind < enough))
      behind += weights[static_cast<size_t>(end++)];
    borders.push_back(end);
  }
  borders.push_back(count);
  return borders;
}

}  // namespace kerf::schedmp
