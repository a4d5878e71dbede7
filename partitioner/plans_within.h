// plan_within() of one model again and again, of requests that differ in their caps, and perhaps in
// micro-batches and stages per worker: what divisions take is looked at once, and nothing is looked
// for below the least that was found before. Within this folder. Used by one thread.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "partitioner/known_peaks.h"

namespace kerf::partitioner {

class PlansWithin {
 public:
  // Borrows both.
  PlansWithin(const Model& model, const InFlight& in_flight)
      : model_(model), in_flight_(in_flight) {}

  // As plan_within() has it, and throws.
  std::optional<Plan> find(const PlanRequest& request);

 private:
  struct Known {
    KnownPeaks peaks;
    int64_t least = 0;  // bytes per worker: of fewer no plan was found
  };
  Known& known(const PlanRequest& request);

  const Model& model_;
  const InFlight& in_flight_;
  std::map<std::pair<int, int>, Known> known_;  // by micro-batches and stages per worker
};

}  // namespace kerf::partitioner
