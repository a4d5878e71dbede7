// Two workers, stages 0 and 2 on the first, 1 and 3 on the second:
//
//   worker 0  0F0 0F1 2F0 2F1                 2B0     2B1     0B0     0B1     U
//   worker 1      1F0 1F1 3F0 3F1 3B0     3B1     1B0     1B1     U
//
// Looped, breadth first (Lamy-Poirier 2022, arXiv:2211.05953): every micro-batch goes through a
// chunk before the next chunk begins. The idle time of interleaved 1F1B, with every micro-batch
// kept at once; each chunk's weights are used in one go.
#include "schedmp/schedules/distinct_groups.h"

namespace kerf::schedmp {

Schedule looped_bfs(const Pipeline& pipeline, int micro_batches) {
  const DistinctGroups groups = placed_groups(shape_of("looped-bfs"), "looped-bfs", pipeline);
  std::vector<std::vector<Action>> rows;
  for (const std::vector<int>& stages : groups.stages) {
    RowWriter row(micro_batches);
    for (const int stage : stages)
      for (int i = 0; i < micro_batches; ++i) row.forward(stage);
    for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage)
      for (int i = 0; i < micro_batches; ++i) row.backward(*stage);
    rows.push_back(row.take());
  }
  return with_rows("looped-bfs", pipeline, groups, micro_batches, rows);
}

}  // namespace kerf::schedmp
