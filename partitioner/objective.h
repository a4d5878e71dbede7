// What a plan costs: the question that the planner asks of the floor above, which knows schedules.
#pragma once

#include <optional>

#include "partitioner/cost.h"
#include "partitioner/plan.h"
#include "partitioner/sums.h"

namespace kerf::partitioner {

class Objective {
 public:
  virtual ~Objective() = default;
  // Of one step under the schedule that will run; empty where that cannot run this plan. `sums`:
  // what the plan was connected by.
  virtual std::optional<double> step_seconds(const Sums& sums, const Plan& plan,
                                             const DeviceSpeed& speed) const = 0;
  // Whether such a step has gradients, or forward passes alone. The plan need not be connected.
  virtual bool has_gradients(const Plan& plan) const = 0;

  // The same step, where nobody has the sums.
  std::optional<double> step_seconds(const Model& model, const Plan& plan,
                                     const DeviceSpeed& speed) const {
    const Sources sources(model, plan.division, stages_of_parts(plan));
    return step_seconds(Sums(sources), plan, speed);
  }
};

}  // namespace kerf::partitioner
