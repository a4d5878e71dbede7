// Two workers, stages 0 and 2 on the first, 1 and 3 on the second:
//
//   worker 0  0F0 0F1 2F0 2F1         2B0     0F2 2B1     0F3 0B0     2F2 0B1 ...
//   worker 1      1F0 1F1 3F0 3B0     3F1 3B1     1F2 1B0     1F3 1B1 ...
//
// Interleaved 1F1B (Narayanan et al. 2021, arXiv:2104.04473): 1F1B over the v chunks of each of p
// workers, for rounds of micro-batches that go through all chunks in turn. Idle for (p - 1) of
// vm + p - 1 actions. A round has p micro-batches or a few more, so that all are about as long;
// where there are fewer than p in all, they make one round.
#include <algorithm>

#include "schedmp/schedules/distinct_groups.h"

namespace kerf::schedmp {

namespace {

// The chunk of each of a group's forwards, in order: of backwards it is the last chunk first.
std::vector<int> chunks_in_order(int groups, int chunks, int micro_batches) {
  const int rounds = std::max(1, micro_batches / groups);
  std::vector<int> order;
  for (int round = 0; round < rounds; ++round) {
    const int size = micro_batches / rounds + (round < micro_batches % rounds ? 1 : 0);
    for (int chunk = 0; chunk < chunks; ++chunk)
      order.insert(order.end(), static_cast<size_t>(size), chunk);
  }
  return order;
}

}  // namespace

Schedule interleaved(const Pipeline& pipeline, int micro_batches) {
  const DistinctGroups groups = placed_groups(shape_of("interleaved"), "interleaved", pipeline);
  const auto chunks = static_cast<int>(groups.stages[0].size());
  const std::vector<int> order = chunks_in_order(groups.count(), chunks, micro_batches);
  const auto round = static_cast<int>(std::find(order.begin(), order.end(), 1) - order.begin());
  std::vector<std::vector<Action>> rows;
  for (int group = 0; group < groups.count(); ++group) {
    const std::vector<int>& stages = groups.stages[static_cast<size_t>(group)];
    // As many as are under way in the first round when its first comes back.
    const int ahead = 2 * (groups.count() - 1 - group) + (chunks - 1) * round;
    const auto warm_up = std::min(order.size(), static_cast<size_t>(ahead));
    RowWriter row(micro_batches);
    for (size_t i = 0; i < warm_up; ++i) row.forward(stages[static_cast<size_t>(order[i])]);
    for (size_t i = 0; i < order.size(); ++i) {
      if (i + warm_up < order.size()) row.forward(stages[static_cast<size_t>(order[i + warm_up])]);
      row.backward(stages[static_cast<size_t>(chunks - 1 - order[i])]);
    }
    rows.push_back(row.take());
  }
  return with_rows("interleaved", pipeline, groups, micro_batches, rows);
}

}  // namespace kerf::schedmp
