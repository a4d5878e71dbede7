// Whether the transfers that rows name (Schedule::transfers) are those that their computing needs,
// each once, sent after it is made and received before it is read, and in one order at both ends.
// Pure function.
#pragma once

#include <string>
#include <vector>

#include "schedmp/schedule.h"

namespace kerf::schedmp {

// Of a chain of stages, one worker each. Empty if they are; else worker and action of each problem,
// the first kMostProblems of them (verify.h).
std::vector<std::string> check_transfers(const Schedule& schedule);

}  // namespace kerf::schedmp
