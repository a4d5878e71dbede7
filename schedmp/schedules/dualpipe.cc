// The first half of the micro-batches goes one way, the others the other way:
//
//   worker 0  0F0 1F2 0F1 1B2     1F3 0B0 ...
//   worker 1  0F2 1F0 0F3 1B0     1F1 0B2 ...
//
// DualPipe (DeepSeek-AI 2024, arXiv:2412.19437): two pipelines through the same p workers, each
// with weights of its own; in the middle every forward of one way stands before a backward of the
// other, so that the messages of one can pass while the other computes. It takes 2p micro-batches;
// of fewer it is the schedule of so many, less those that are not there. The second half of the
// workers does what the first does, the other way.
#include <algorithm>
#include <numeric>

#include "schedmp/schedules/both_ways.h"
#include "schedmp/schedules/dual_pipe_row.h"

namespace kerf::schedmp {

Schedule dualpipe(const Pipeline& pipeline, int micro_batches) {
  const int groups = groups_both_ways("dualpipe", pipeline);
  const int down = (micro_batches + 1) / 2;
  std::vector<std::vector<int>> ways = {
      std::vector<int>(static_cast<size_t>(down)),
      std::vector<int>(static_cast<size_t>(micro_batches - down))};
  std::iota(ways[0].begin(), ways[0].end(), 0);
  std::iota(ways[1].begin(), ways[1].end(), down);
  std::vector<int> replica_of(static_cast<size_t>(micro_batches));
  for (const int each : ways[1]) replica_of[static_cast<size_t>(each)] = 1;
  std::vector<std::vector<Action>> rows;
  for (int group = 0; group < groups; ++group) {
    const int other = groups - 1 - group;
    RowWriter row(micro_batches);
    row.number(group, ways[0]);
    row.number(other, ways[1]);
    // A way begins on the nearer end: there the stage is the lower one.
    write_dual_pipe_row(row, std::min(group, other), groups / 2,
                        {std::min(group, other), std::max(group, other)}, down);
    rows.push_back(row.take());
  }
  return with_both_ways("dualpipe", pipeline, replica_of, rows);
}

}  // namespace kerf::schedmp
