// What a plan proves of its bottleneck, and where each operator went: the members of the JSON of
// plans of models and of graphs. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "partitioner/bound.h"
#include "runtime/json.h"

namespace kerf::apps {

// {kind: exact | bound, value, witness}.
Json certificate_json(double bottleneck, const partitioner::Bound& bound);
// "the least there is (conv2 alone)", "1.5 % above a lower bound (all work over 4 stages)".
std::string certificate_text(double bottleneck, const partitioner::Bound& bound);
// Name of each node to its stage.
Json assignment_json(const std::vector<std::string>& names, const std::vector<int>& stage_of);

}  // namespace kerf::apps
