// Walks: what a worker's row comes to, instruction by instruction, without running it.
//
// The verifier and the executor must agree on when a local gets its memory and when a slot is
// taken; both ask here. Pure functions of a Part.
#pragma once

#include <functional>
#include <vector>

#include "partitioner/part.h"
#include "schedmp/schedule.h"

namespace kerf::schedmp {

// The instruction lists that an action runs, in order (B: I, then W). Empty if the worker has no
// part of the stage.
std::vector<const std::vector<partitioner::Instruction>*> lists_of(const partitioner::Part& part,
                                                                   const Action& action);

// The locals that an instruction reads or writes and that must have memory while it runs, in order;
// a received view and an alias are not among them until they exist.
std::vector<int> locals_touched(const partitioner::Part& part,
                                const partitioner::Instruction& instruction);

}  // namespace kerf::schedmp
