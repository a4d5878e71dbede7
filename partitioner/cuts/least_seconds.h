// A bound of a plan's step that costs no connecting, no lowering and no simulation, for the
// automatic cut (choose_plan.h). Pure function.
#pragma once

#include "partitioner/cut.h"
#include "partitioner/sums.h"

namespace kerf::partitioner {

// No step of the plan takes less, whatever its schedule: every worker begins with its first forward
// pass, operator by operator, each of which waits for those that make what it reads; and computes
// and copies (least_copies.h) all the rest afterwards, where the step has gradients. `sums`: of the
// plan's division; the plan need not be connected.
//
//   worker 0  0F0 ...............
//   worker 1      1F0 ...............   rest
//   worker 2          2F0 ...............
double least_seconds(const Sums& sums, const Plan& plan, const PlanRequest& request);

}  // namespace kerf::partitioner
