// plan_within() of one model again and again, of requests that differ in their caps, and perhaps in
// micro-batches and stages per worker: what divisions take is looked at once, the plan without caps
// is made once, and nothing is looked for below the least that a search under less memory came to.
// Within this folder. Used by one thread.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "partitioner/known_peaks.h"

namespace kerf::partitioner {

class PlansWithin {
 public:
  // Borrows both.
  PlansWithin(const Model& model, const InFlight& in_flight)
      : model_(model), in_flight_(in_flight) {}

  // Throws what plan_within() does.
  std::optional<Plan> find(const PlanRequest& request);

 private:
  struct Known {
    KnownPeaks peaks;
    std::optional<Plan> without_caps = std::nullopt;
    int64_t least = 0;  // bytes per worker: of fewer no plan was found
  };
  // Rows of each micro-batch, or the batch and their number; stages per worker.
  using Key = std::tuple<std::vector<int64_t>, int64_t, int, int>;
  Known& known(const PlanRequest& request);

  const Model& model_;
  const InFlight& in_flight_;
  std::map<Key, Known> known_;
};

}  // namespace kerf::partitioner
