// Schedules that repeat one building block (Qi et al. 2024, arXiv:2405.15362): for every
// micro-batch the same actions, a fixed time after those of the one before, so that memory follows
// from how long a block keeps what it keeps. Stages go there and back: of a worker one is on the
// way down and one on the way up.
#pragma once

#include <string>

#include "schedmp/schedules/distinct_groups.h"

namespace kerf::schedmp {

// How many actions after a worker the next one has its own, on the way down and on the way up, of
// forwards and of input gradients.
struct VBlock {
  int forward_down = 1;
  int forward_up = 1;
  int gradient_down = 1;
  int gradient_up = 1;
};

// Of these blocks the one that keeps least, and of as little the one that is over first.
Schedule repeat_block(const std::string& name, const std::vector<VBlock>& blocks,
                      const Pipeline& pipeline, int micro_batches);

}  // namespace kerf::schedmp
