// Two workers, one wave: stages 0 and 3 on the first, 1 and 2 on the second:
//
//   worker 0  0F0 0F1 0F2 3F0 3B0 ...
//   worker 1      1F0 2F0 1F1 2F1 2B0 ...
//
// Hanayo (Liu et al. 2023, arXiv:2308.15762): stages go there and back once or several times, so
// that a micro-batch comes to each worker as a wave that turns at the ends: Chimera's two pipelines
// without its second copy of the weights. No worker keeps more than 1F1B's first does, p
// micro-batches of all its chunks; of several waves up to p - 1 chunks more, without which a
// pipeline of more than p micro-batches would stand still between them, and more where stages do
// not all wait for those before them (played_rows.h).
#include "schedmp/schedules/played_rows.h"

namespace kerf::schedmp {

Schedule hanayo(const Pipeline& pipeline, int micro_batches, const ActionCosts& costs) {
  const DistinctGroups groups = placed_groups(shape_of("hanayo"), "hanayo", pipeline);
  const auto chunks = static_cast<int>(groups.stages[0].size());
  const int kept = groups.count() * chunks + (chunks > 2 ? groups.count() - 1 : 0);
  return with_rows("hanayo", pipeline, groups, micro_batches,
                   played_rows(kept, pipeline, groups, micro_batches, costs));
}

}  // namespace kerf::schedmp
