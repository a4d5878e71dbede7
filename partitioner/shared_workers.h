// The layer plan of several stages per worker (--stages-per-worker), by the step that its schedule
// takes: which stages there are, and which worker has which, are one question.
//
//   in turn          0 1 2 0 1 2    what keeps most workers busy while a pipeline fills
//   there and back   0 1 2 2 1 0    the middle of the model stays where it is
//   in blocks        0 0 1 1 2 2    the plan of one stage per worker, each cut into several
//   by load          0 1 2 1 0 2    so that the heaviest worker has least: the stages of the first,
//                                   and those of an annealing (cuts/shared_devices.h)
//
// Stages in turn are also looked for in less memory; where the schedule places its stages, these
// alone are. Each that is within the caps and keeps to the rules is simulated; the shortest step
// wins. Blocks cost what one stage per worker does, but that a gradient leaves after those of the
// weights of the later stages on its worker.
#pragma once

#include <optional>
#include <variant>

#include "partitioner/cut.h"
#include "partitioner/objective.h"

namespace kerf::partitioner {

// For a layer cut with request.steering.stages_per_worker > 1, or a placement that binds several
// stages to a worker, which stay there. Throws what make_plan() throws.
std::variant<Plan, Infeasible> plan_shared_workers(const Model& model, const PlanRequest& request,
                                                   const InFlight& in_flight,
                                                   const Objective& objective);

// Where who asks has no use for what would fit: plan_shared_workers() may still find one, as it
// looks for ever less memory from what would fit down.
std::optional<Plan> shared_workers_within(const Model& model, const PlanRequest& request,
                                          const InFlight& in_flight, const Objective& objective);

}  // namespace kerf::partitioner
