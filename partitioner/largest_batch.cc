// The largest batch whose plan fits.
#include "partitioner/most_rows.h"
#include "partitioner/tried_plan.h"

namespace kerf::partitioner {

int64_t largest_batch(const Model& model, PlanRequest request, const InFlight& in_flight) {
  const int micro_batches = request.micro_batches;
  request.given_sizes.clear();
  const auto try_with = [&](int64_t rows) {
    request.batch = rows * micro_batches;
    return try_rows(model, request, in_flight);
  };
  const TriedRows fewest = try_with(fewest_rows(model, request, in_flight));
  if (!fewest.within) return fewest.rows * micro_batches;
  MostRows most(try_with, request.memory);
  most.between(fewest, {kMostRows / micro_batches + 1});
  return most.further().rows * micro_batches;
}

}  // namespace kerf::partitioner
