// Turns: the order in which a worker runs the lists of those of its parts that are of one stage.
//
// An action of a schedule runs its list of all parts of the stage that are bound to the worker. In
// the midst of their lists parts wait for each other, and for parts on other workers which may wait
// for them, so that one list after the other could wait for ever. Hence all instructions that a
// stage's parts have for an action are put into one order in which nothing is received before it is
// sent, and every worker goes through its own in that order. It is the order in which one worker
// would run them that goes on with a part for as long as it has nothing to wait for.
//
// Lists of a step have no turns: what they receive was sent by a list before.
#pragma once

#include <vector>

#include "partitioner/part.h"

namespace kerf::partitioner {

// Whether workers have several of the stage's parts.
bool needs_turns(const Plan& plan, const Stage& stage);

// Fills the turns of the parts that are not alone on their worker in their stage. O(instructions *
// parts of the stage).
void give_turns(const Plan& plan, std::vector<Part>& parts);

// Where the transient regions of a worker's parts begin, and the bytes of the stage that needs
// most. `bytes`: what each part needs.
struct Transient {
  std::vector<int64_t> starts;  // by index
  int64_t bytes = 0;
};
Transient transient_of(const std::vector<const Part*>& parts, const std::vector<int64_t>& bytes);

}  // namespace kerf::partitioner
