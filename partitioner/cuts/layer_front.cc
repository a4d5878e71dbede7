// The front of layer cuts: for a few caps on memory, every division that has fewer bytes than all
// those of a lower bottleneck.
#include <algorithm>
#include <cmath>

#include "partitioner/cuts/layer_search.h"

namespace kerf::partitioner {
namespace {

constexpr double kMostOfLeast = 2;  // bottlenecks beyond so many times the least are left out
constexpr double kStep = 0.005;     // between two bottlenecks
constexpr double kLess = 1e-9;      // is less
constexpr int kMostQueries = 128;   // of one cap
constexpr int kCapsBetween = 2;     // the least memory and that of the best bottleneck
constexpr int kMostTimesLess = 8;   // that a division of less memory is looked for

bool is_as_good_and_better(const LayerDivision& a, const LayerDivision& b) {
  const double room = 1 + kLess;
  return a.bottleneck <= b.bottleneck * room && a.bytes <= b.bytes * room &&
         a.fullest <= b.fullest * room &&
         (a.bottleneck * room < b.bottleneck || a.bytes * room < b.bytes ||
          a.fullest * room < b.fullest);
}

bool is_equal(const LayerDivision& a, const LayerDivision& b) {
  return !is_as_good_and_better(a, b) && !is_as_good_and_better(b, a) &&
         std::abs(a.bottleneck - b.bottleneck) <= kLess * a.bottleneck &&
         std::abs(a.bytes - b.bytes) <= kLess * a.bytes;
}

}  // namespace

std::vector<LayerDivision> none_better(const std::vector<LayerDivision>& found) {
  std::vector<LayerDivision> front;
  for (const LayerDivision& division : found)
    if (std::none_of(
            found.begin(), found.end(),
            [&](const LayerDivision& other) { return is_as_good_and_better(other, division); }) &&
        std::none_of(front.begin(), front.end(),
                     [&](const LayerDivision& other) { return is_equal(other, division); }))
      front.push_back(division);
  std::sort(front.begin(), front.end(), [](const LayerDivision& a, const LayerDivision& b) {
    return std::pair(a.bottleneck, a.bytes) < std::pair(b.bottleneck, b.bytes);
  });
  return front;
}

// From the fewest bytes to the lowest bottleneck: one that has no more bytes than the one before,
// and a lower bottleneck, takes its place.
void LayerSearch::add_front(const StageLimits& limits, std::vector<LayerDivision>& found) {
  Attempt least{limits};
  find_bottleneck(least, false);
  if (least.bottleneck == kNever) return;
  const auto within = [&](double price) {  // what chains of ideals lead to is for this price
    Attempt attempt{limits};
    start(attempt);
    attempt.bottleneck = least.bottleneck;
    attempt.search = least.search;  // of the same limits
    return fewest_bytes(attempt, std::max(price, least.bottleneck));
  };
  const size_t first = found.size();
  double price = kMostOfLeast * least.bottleneck;
  for (int query = 0; query < kMostQueries && price > least.bottleneck; ++query) {
    auto division = within(price);
    if (!division) break;
    if (found.size() > first && division->bytes <= found.back().bytes * (1 + kLess)) {
      found.back() = *std::move(division);
    } else if (const double next = found.size() > first ? found.back().bottleneck * (1 - kStep) : 0;
               price > next && division->bottleneck > next && next > 0) {
      price = next;
      continue;
    } else {
      found.push_back(*std::move(division));
    }
    price = found.back().bottleneck * (1 - kLess);
  }
  if (auto division = within(least.bottleneck)) found.push_back(*std::move(division));
}

// Of no higher bottleneck, and no more bytes.
std::optional<LayerDivision> LayerSearch::holding_less(const LayerDivision& than) const {
  StageLimits limits = limits_;
  limits.memory.assign(limits.memory.size(), than.fullest * (1 - kLess));
  Attempt attempt{limits};
  start(attempt);
  auto division = fewest_bytes(attempt, than.bottleneck);
  if (division && !is_as_good_and_better(*division, than)) division.reset();
  return division;
}

std::vector<LayerDivision> LayerSearch::front(std::optional<int64_t> cap) {
  const auto best = cap ? best_within(*cap) : this->best();
  std::vector<LayerDivision> found;
  if (!best) return found;
  const auto enough = static_cast<int64_t>(std::ceil(best->fullest));
  const int64_t least = enough < 2 ? enough : least_cap(0, enough).bytes;
  const int64_t step = (enough - least) / (kCapsBetween + 1);
  std::vector<double> caps{cap ? static_cast<double>(*cap) : kNever};
  for (int i = 0; i <= kCapsBetween && least < enough; ++i)
    caps.push_back(static_cast<double>(least + step * i));
  for (const double each : caps) {
    StageLimits limits = limits_;
    limits.memory.assign(limits.memory.size(), each);
    add_front(limits, found);
  }
  std::vector<LayerDivision> front = none_better(found);
  for (LayerDivision& each : front)
    for (int times = 0; times < kMostTimesLess; ++times) {
      auto less = holding_less(each);
      if (!less) break;
      each = *std::move(less);
    }
  return none_better(front);
}

}  // namespace kerf::partitioner
