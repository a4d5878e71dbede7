// How long the operators of a run took, by its spans, beside what their costs say: the way from a
// run to a profile (partitioner/profile.h). Pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "partitioner/plan.h"
#include "partitioner/profile.h"
#include "runtime/trace.h"

namespace kerf::apps {

// Of a step, all workers together.
struct OperatorSeconds {
  double forward = 0;
  double input_gradient = 0;
  double weight_gradient = 0;
  double total() const { return forward + input_gradient + weight_gradient; }
};

struct OperatorTimes {
  std::string name;
  OperatorSeconds measured;   // the median of the steps
  OperatorSeconds predicted;  // by the cost alone
};

// In model order, of those that cost something and of which a whole step is in the spans. The first
// such step is left out where there are others: caches are cold, and kernels are chosen in it.
std::vector<OperatorTimes> operator_times(const partitioner::Model& model,
                                          const partitioner::Plan& plan,
                                          std::span<const runtime::WorkerTrace> traces);

// Of workers that took `seconds` of a step for all that they compute, by worker, on devices of such
// speeds: what their operators take of that, in the proportion of the spans, at a speed of 1. What
// a worker does beside its operators, updates and copies, goes with them.
std::vector<OperatorTimes> operator_times(const partitioner::Model& model,
                                          const partitioner::Plan& plan,
                                          std::span<const runtime::WorkerTrace> traces,
                                          std::span<const double> seconds,
                                          const partitioner::Capacities& capacities);

partitioner::Profile profile_of(std::span<const OperatorTimes> times);

}  // namespace kerf::apps
