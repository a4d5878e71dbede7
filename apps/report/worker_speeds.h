// How fast workers are beside one another, where several have shares of the same operators: a cut
// by features or samples, of which each worker does the same in its own part. Pure function.
#pragma once

#include <span>
#include <vector>

#include "partitioner/plan.h"
#include "runtime/trace.h"

namespace kerf::apps {

// By what the same operators take them for the same work, of workers whose steps take
// `step_seconds` of computing. `planned` are the speeds that the plan is for: those that share
// operators stay as fast together, and who shares none keeps its own.
std::vector<double> speeds_by_shares(const partitioner::Model& model, const partitioner::Plan& plan,
                                     std::span<const runtime::WorkerTrace> traces,
                                     std::span<const double> step_seconds,
                                     const std::vector<double>& planned);

}  // namespace kerf::apps
