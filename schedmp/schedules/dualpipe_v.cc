// Two workers, stages 0 and 3 on the first, 1 and 2 on the second:
//
//   worker 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3 3B1 3F2 0B0 ...
//   worker 1      1F0 2F0 1F1 2F1 1F2 2B0 ...
//
// DualPipeV (DeepSeek-AI 2025, the DualPipe repository; after DualPipe, arXiv:2412.19437): half of
// DualPipe, without its second copy of the weights. Stages go there and back, and in its middle
// every forward of one chunk stands before a backward of the other, so that the messages of one can
// pass while the other computes. It takes 2p micro-batches of p workers; of fewer it is the
// schedule of so many, less those that are not there.
#include "schedmp/schedules/dual_pipe_row.h"

namespace kerf::schedmp {

Schedule dualpipe_v(const Pipeline& pipeline, int micro_batches) {
  const DistinctGroups groups = placed_groups(shape_of("dualpipe-v"), "dualpipe-v", pipeline);
  std::vector<std::vector<Action>> rows;
  for (int group = 0; group < groups.count(); ++group) {
    const std::vector<int>& stages = groups.stages[static_cast<size_t>(group)];
    RowWriter row(micro_batches);
    write_dual_pipe_row(row, group, groups.count(), {stages[0], stages[1]}, micro_batches);
    rows.push_back(row.take());
  }
  return with_rows("dualpipe-v", pipeline, groups, micro_batches, rows);
}

}  // namespace kerf::schedmp
