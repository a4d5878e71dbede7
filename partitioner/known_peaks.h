// What layer divisions of a request take, whatever its caps: each is looked at once, however often
// searches under one cap after another come back to it. Used by one thread.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "partitioner/cut.h"

namespace kerf::partitioner {

class KnownPeaks {
 public:
  // Borrows the model and `in_flight`; caps of the request do not count.
  KnownPeaks(const Model& model, const PlanRequest& request, const InFlight& in_flight)
      : model_(model), request_(request), in_flight_(in_flight) {}

  // Stage -> bytes of the fullest of its workers, under these caps, as predicted_plan() has it.
  std::vector<int64_t> of(Assignment assignment, const PlanRequest& caps);

 private:
  // Nodes of each stage; of each whether it is interleaved, and the binding.
  using Division = std::pair<std::vector<std::vector<NodeId>>, std::vector<int>>;

  const std::vector<int64_t>& known(const Assignment& assignment);  // by worker

  const Model& model_;
  const PlanRequest request_;
  const InFlight& in_flight_;
  std::map<Division, std::vector<int64_t>> peaks_;
};

}  // namespace kerf::partitioner
