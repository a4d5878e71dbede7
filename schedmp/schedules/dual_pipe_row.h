// A group's row of DualPipe and DualPipeV, whose every group has a stage of the way that begins
// with the first of them, and one of the way that ends there: eight phases, as DeepSeek-AI's
// DualPipe repository has them (2025, arXiv:2412.19437). dualpipe.cc and dualpipe_v.cc have
// pictures.
#pragma once

#include "schedmp/schedules/distinct_groups.h"

namespace kerf::schedmp {

struct TwoWays {
  int down = 0;  // stage of the way that begins with group 0
  int up = 0;    // of that which ends there
};

// `group` of `groups`, for so many micro-batches of each way; of fewer than two a group it is the
// row of so many, of which the writer leaves out what is not there.
void write_dual_pipe_row(RowWriter& row, int group, int groups, const TwoWays& stages,
                         int micro_batches);

}  // namespace kerf::schedmp
