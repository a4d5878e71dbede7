// Micro-batches 0 and 1 go one way, 2 and 3 the other:
//
//   worker 0  0F0 0F1     3F2 3B2 3F3 3B3 0B0     0B1
//   worker 1      1F0 2F2 1F1 2F3 2B2 1B0 2B3 1B1
//   worker 2      1F2 2F0 1F3 2F1 2B0 1B2 2B1 1B3
//   worker 3  0F2 0F3     3F0 3B0 3F1 3B1 0B2     0B3
//
// Chimera (Li and Hoefler 2021, arXiv:2107.06925): two pipelines through the same p workers, each
// with weights of its own, so that one fills the other's ramps. A unit of p micro-batches has half
// of them each way: micro-batch j of stage s is forward at the moment s + 2j of its way (or before)
// and back at 2p - 1 - s + 2j, which never meets one of the other way on a worker, p being even.
// Units follow each other after 2p moments without a gap. Where F takes as long as B, a step is
// idle for p - 2 of its 2m + p - 2 moments.
#include <algorithm>

#include "schedmp/schedules/both_ways.h"

namespace kerf::schedmp {

namespace {

struct Moment {
  int64_t time = 0;
  Action action;
};

// Of a micro-batch that enters its way at `begin`, what is done with it in that stage.
void add(std::vector<Moment>& moments, int64_t begin, int stage, int stages, int micro_batch) {
  moments.push_back({begin + stage, {stage, ActionKind::kForward, micro_batch}});
  moments.push_back({begin + 2 * stages - 1 - stage, {stage, ActionKind::kBackward, micro_batch}});
}

}  // namespace

Schedule chimera(const Pipeline& pipeline, int micro_batches) {
  const int groups = groups_both_ways("chimera", pipeline);
  std::vector<int> replica_of;
  std::vector<std::vector<Moment>> moments(static_cast<size_t>(groups));
  for (int first = 0; first < micro_batches; first += groups) {
    const int unit = std::min(groups, micro_batches - first);
    const int down = (unit + 1) / 2;
    for (int i = 0; i < unit; ++i) {
      const int replica = i < down ? 0 : 1;
      const int64_t begin = int64_t{2} * (first + i - replica * down);
      replica_of.push_back(replica);
      for (int stage = 0; stage < groups; ++stage) {
        const int group = replica == 0 ? stage : groups - 1 - stage;
        add(moments[static_cast<size_t>(group)], begin, stage, groups, first + i);
      }
    }
  }
  std::vector<std::vector<Action>> rows;
  for (std::vector<Moment>& each : moments) {
    std::sort(each.begin(), each.end(),
              [](const Moment& a, const Moment& b) { return a.time < b.time; });
    std::vector<Action>& row = rows.emplace_back();
    for (const Moment& moment : each) row.push_back(moment.action);
  }
  return with_both_ways("chimera", pipeline, replica_of, rows);
}

}  // namespace kerf::schedmp
