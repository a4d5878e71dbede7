// What the automatic cut (choose_plan.h) says where nothing fits the memory cap. Pure function.
#pragma once

#include <optional>
#include <vector>

#include "partitioner/cut.h"

namespace kerf::partitioner {

// Of all cuts, by themselves, and of other plans that were predicted and are above the cap of all
// workers: what the one says that is short of the fewest bytes, with the smallest change that fits.
// Empty where none fails for want of memory.
std::optional<Infeasible> least_shortage(const Model& model, PlanRequest request,
                                         const InFlight& in_flight,
                                         const std::vector<const Plan*>& others);

}  // namespace kerf::partitioner
