// Why stages end where they do: what crosses each boundary between stages that follow each other,
// and what the plan would come to if the boundary lay an operator of some work earlier or later.
// Pure function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partitioner/in_flight.h"
#include "partitioner/plan.h"

namespace kerf::partitioner {

// What a plan comes to.
struct PlanFigures {
  double bottleneck = 0;   // of the objective: the slowest worker's
  int64_t cut_bytes = 0;   // of values between stages and parts, forward, in one step
  int64_t peak_bytes = 0;  // of the fullest worker
  bool operator==(const PlanFigures&) const = default;
};

struct BoundaryMove {
  std::vector<NodeId> nodes;  // that change their stage, in model order
  int to = 0;                 // stage
  PlanFigures then;
};

// Between stages `before` and `before` + 1.
struct Boundary {
  int before = 0;
  std::vector<ValueId> crossing;  // from a stage up to `before` to one behind it
  int64_t bytes = 0;              // of these, forward, in one step
  std::vector<BoundaryMove> moves;
  std::vector<std::string> fixed;  // why it cannot be moved one way, or the other
};

PlanFigures figures_of(const Model& model, const Plan& plan);
// Empty for plans of one stage. A move takes operators until they are a twentieth of the bottleneck
// together; operators that share a parameter stay where they are, as do those that a person wants
// there or together; none comes to a worker that it is to be apart from, and no stage is left
// empty.
std::vector<Boundary> boundaries_of(const Model& model, const Plan& plan,
                                    const InFlight& in_flight);

}  // namespace kerf::partitioner
