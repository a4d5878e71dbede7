// How many micro-batches the stages of a plan may keep within a cap of bytes. Pure function.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "partitioner/part.h"
#include "partitioner/setting.h"
#include "schedmp/unfold.h"

namespace kerf::schedmp {

// By stage: so many that under schedules that are found by these costs without an effort no worker
// takes more than `cap` bytes: as many as there is room for beside one micro-batch at a time, less
// until what is held of messages has room too. `parts` are those of `plan`, whose stages are on a
// worker, or group, each. Throws Error{kInfeasible} that names the worker where one micro-batch is
// too many. `sign` is called now and then.
std::vector<int> kept_within(const partitioner::Model& model, const partitioner::Plan& plan,
                             const std::vector<partitioner::Part>& parts,
                             const partitioner::Setting& setting, const ActionCosts& costs,
                             int64_t cap, const std::function<void(double)>& sign);

}  // namespace kerf::schedmp
