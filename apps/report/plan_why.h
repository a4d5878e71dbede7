// Why a plan's boundaries are where they are, as people and programs want to read it. Plain values;
// no threads.
#pragma once

#include <string>
#include <vector>

#include "partitioner/boundaries.h"
#include "runtime/json.h"

namespace kerf::apps {

// A table of what crosses each boundary, and of what the plan would come to if it were moved.
std::string why_text(const partitioner::Model& model, const partitioner::Plan& plan,
                     const std::vector<partitioner::Boundary>& boundaries, bool colour);
Json why_json(const partitioner::Model& model,
              const std::vector<partitioner::Boundary>& boundaries);

}  // namespace kerf::apps
