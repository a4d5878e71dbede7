// What a plan costs: the question that the planner asks of the floor above, which knows schedules.
#pragma once

#include <optional>

#include "partitioner/cost.h"
#include "partitioner/plan.h"

namespace kerf::partitioner {

class Objective {
 public:
  virtual ~Objective() = default;
  // Of one step under the schedule that will run; empty where that cannot run this plan.
  virtual std::optional<double> step_seconds(const Model& model, const Plan& plan,
                                             const DeviceSpeed& speed) const = 0;
  // Whether such a step has gradients, or forward passes alone.
  virtual bool has_gradients(const Model& model, const Plan& plan) const = 0;
};

}  // namespace kerf::partitioner
