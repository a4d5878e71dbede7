// What the automatic cut tried, for people and as JSON. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "partitioner/choose_plan.h"
#include "runtime/json.h"

namespace kerf::apps {

// [{"cut": "hybrid in 2 stages", "step_seconds": ..., "bytes": ...}, or "why_not" instead of both]
Json tried_json(const std::vector<partitioner::Tried>& tried);
std::string tried_text(const std::vector<partitioner::Tried>& tried, bool colour);

}  // namespace kerf::apps
