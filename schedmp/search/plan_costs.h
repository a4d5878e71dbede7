// What a search needs to know of a plan: what each stage's actions take as the plan is priced, and
// how many micro-batches each may keep within a cap of bytes. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "partitioner/part.h"
#include "partitioner/setting.h"
#include "schedmp/unfold.h"

namespace kerf::schedmp {

// Seconds by stage, of the plan's largest micro-batch, and of a message on average: as they are
// where one micro-batch at a time goes through the stages (simulate.h). `parts` are those of
// `plan`, whose stages are on a worker, or group, each.
ActionCosts costs_of_plan(const partitioner::Model& model, const partitioner::Plan& plan,
                          const std::vector<partitioner::Part>& parts);

// By stage: so many that no worker of its group takes more than `cap` bytes, each keeping what a
// micro-batch keeps from F to W. Throws Error{kInfeasible} that names the worker where one is too
// many.
std::vector<int> kept_within(const partitioner::Model& model, const partitioner::Plan& plan,
                             const std::vector<partitioner::Part>& parts,
                             const partitioner::Setting& setting, int64_t cap);

}  // namespace kerf::schedmp
