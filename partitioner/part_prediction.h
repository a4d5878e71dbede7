// What a plan will cost each of its parts, which is each worker of each stage: what workers' own
// predictions (plan.h) add up. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "partitioner/in_flight.h"
#include "partitioner/part.h"
#include "partitioner/plan.h"

namespace kerf::partitioner {

struct PlanRequest;

// Per step. What it takes at its peak is its worker's to say: parts of one worker take turns.
struct PartPrediction {
  int stage = 0;
  int worker = 0;
  int operators = 0;  // of which it computes a share, or all
  double forward_flops = 0;
  double seconds = 0;  // computing, forward and gradients
  int64_t weight_bytes = 0;
  int64_t activation_bytes = 0;  // kept for the gradients, at the most micro-batches in flight
  int64_t messages = 0;          // sent to other workers
  int64_t bytes_in = 0;
  int64_t bytes_out = 0;
  bool operator==(const PartPrediction&) const = default;
};

// By part. `parts` are those of `plan`, lowered with gradients.
std::vector<PartPrediction> predict_parts(const Model& model, const Plan& plan,
                                          const std::vector<Part>& parts,
                                          const PlanRequest& request, const InFlight& in_flight);

}  // namespace kerf::partitioner
