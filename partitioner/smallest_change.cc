// What to change of a request that nothing fits.
#include <algorithm>
#include <map>

#include "partitioner/tried_plan.h"

namespace kerf::partitioner {
namespace {

// The fewest even micro-batches that fit; 0 if none do. Only numbers that make the largest one
// smaller can help. Up to four times the request's each of those is tried; beyond that it is halved
// between what does not fit and samples one by one, or one for each worker to divide them over.
int more_micro_batches(const Model& model, PlanRequest request, const InFlight& in_flight) {
  const int64_t most = std::min(request.batch, int64_t{kMostMicroBatches});
  const int64_t nearby = std::min(most, int64_t{4} * request.micro_batches);
  const int64_t too_large = request.largest_micro_batch();
  std::map<int64_t, bool> known;
  request.given_sizes.clear();
  const auto do_fit = [&](int64_t m) {
    request.micro_batches = static_cast<int>(m);
    if (request.largest_micro_batch() >= too_large) return false;
    const auto [size, fresh] = known.try_emplace(request.largest_micro_batch());
    if (!fresh) return size->second;
    // The fewest of this size, each of which has a loss to keep.
    request.micro_batches = static_cast<int>((request.batch + size->first - 1) / size->first);
    return size->second = fits(model, request, in_flight);
  };
  for (int64_t m = 1; m <= nearby; ++m)
    if (do_fit(m)) return static_cast<int>(m);
  int64_t none = nearby;
  int64_t some = most;
  if (!do_fit(some)) some = std::min(most, request.batch / request.workers);
  if (some <= none || !do_fit(some)) return 0;
  while (some - none > 1) {
    const int64_t middle = none + (some - none) / 2;
    (do_fit(middle) ? some : none) = middle;
  }
  return static_cast<int>(some);
}

// The fewest workers, up to twice the request's, that fit; 0 if none do.
int more_workers(const Model& model, PlanRequest request, const InFlight& in_flight) {
  // Its workers are those of the shares file, or of the schedule's.
  if (request.cut == Cut::kFree || !request.placement.empty()) return 0;
  if (!request.speed.capacities.empty()) return 0;  // of these workers
  const int most = std::min(2 * request.workers, kMostWorkers);
  while (++request.workers <= most)
    if (fits(model, request, in_flight)) return request.workers;
  return 0;
}

// Sizes that were given said how many rows a step has; a number does not.
std::string rows_of_given(const PlanRequest& request) {
  return request.given_sizes.empty() ? "" : format("--batch {} ", request.batch);
}

}  // namespace

// Smaller micro-batches cost nothing but time, more workers are there to be had, more memory
// perhaps not: the first of these that is enough.
void find_smallest_change(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                          Infeasible& infeasible) {
  if (const int m = more_micro_batches(model, request, in_flight); m > 0)
    infeasible.smallest_change = format("{}--micro-batches {}", rows_of_given(request), m);
  else if (const int w = more_workers(model, request, in_flight); w > 0)
    infeasible.smallest_change = format("--workers {}", w);
}

}  // namespace kerf::partitioner
