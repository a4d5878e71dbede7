// What flags ask of the planner, checked: everything but the search itself.
#pragma once

#include "apps/kerf/planned.h"

namespace kerf::apps {

// For planned.model, whose setting and optimizer it fills in. Throws Error{kUsage} that names the
// flag, or the file, at fault.
partitioner::PlanRequest request_of_flags(const PlanFlags& flags, Planned& planned);

}  // namespace kerf::apps
