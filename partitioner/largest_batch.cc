// The largest batch whose plan fits.
#include <functional>
#include <utility>

#include "partitioner/caps_that_fit.h"
#include "partitioner/most_rows.h"
#include "partitioner/tried_plan.h"

namespace kerf::partitioner {

namespace {

using TryRequest = std::function<TriedRows(const PlanRequest&)>;

int64_t largest_batch(PlanRequest request, int64_t fewest_rows, const TryRequest& try_request) {
  const int micro_batches = request.micro_batches;
  request.given_sizes.clear();
  const auto try_with = [&](int64_t rows) {
    request.batch = rows * micro_batches;
    return try_request(request);
  };
  const TriedRows fewest = try_with(fewest_rows);
  if (!fewest.within) return fewest.rows * micro_batches;
  MostRows most(try_with, request.memory);
  most.between(fewest, {kMostRows / micro_batches + 1});
  return most.further().rows * micro_batches;
}

}  // namespace

int64_t largest_batch(const Model& model, PlanRequest request, const InFlight& in_flight) {
  const int64_t fewest = fewest_rows(model, request, in_flight);
  return largest_batch(std::move(request), fewest,
                       [&](const PlanRequest& each) { return try_rows(model, each, in_flight); });
}

int64_t largest_batch_within(const PlanRequest& asked, const PlanWithin& plan_within) {
  return largest_batch(asked, 1, [&](const PlanRequest& each) {
    TriedRows tried{each.largest_micro_batch()};
    if (const auto plan = plan_within(each)) {
      tried.within = true;
      tried.peak = peak_of(*plan);
    }
    return tried;
  });
}

}  // namespace kerf::partitioner
