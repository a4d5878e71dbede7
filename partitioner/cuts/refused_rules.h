// The refusal of rules that no division of layers meets, with the way out. Pure functions.
#pragma once

#include <functional>

#include "partitioner/cut.h"

namespace kerf::partitioner {

// What a search of steered layers ends with that found nothing.
struct RulesUnmet {};

// Throws Error{kInfeasible} that names the flags. Where operators are to be apart it says how many
// workers are enough, if a few more are: `meets` tells whether a task has a division, or throws
// RulesUnmet or Error{kInfeasible}.
[[noreturn]] void refuse_rules(const CutTask& task,
                               const std::function<bool(const CutTask&)>& meets);

}  // namespace kerf::partitioner
