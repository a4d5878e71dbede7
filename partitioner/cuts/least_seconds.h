// A bound of a plan's step that costs no connecting, no lowering and no simulation, for the
// automatic cut (choose_plan.h). Pure function.
#pragma once

#include "partitioner/cut.h"
#include "partitioner/sums.h"

namespace kerf::partitioner {

// No step of the plan takes less, whatever its schedule. Every worker begins with its first forward
// pass, operator by operator, each of which waits for those that make what it reads; and computes
// and copies (least_copies.h) all the rest afterwards. Where the step has gradients it ends with
// its last backward pass, whose operators others wait for that made what these read.
//
//   worker 0  0F0 ............... | 0F, 0B | ............... 0B
//   worker 1      1F0 ........... | 1F, 1B | ........... 1B
//   worker 2          2F0 ....... | 2F, 2B | ....... 2B
//
// `sums`: of the plan's division; the plan need not be connected. `splits`: whether the schedule
// may run weights' gradients apart, when it likes.
double least_seconds(const Sums& sums, const Plan& plan, const PlanRequest& request, bool splits);

}  // namespace kerf::partitioner
