#include "schedmp/schedules/later_weights.h"

#include <algorithm>

namespace kerf::schedmp {

Schedule later_weights(const std::string& name, int lead, const Pipeline& pipeline,
                       int micro_batches, int most) {
  const DistinctGroups groups = placed_groups(shape_of(name), name, pipeline);
  const std::vector<int> hops = hops_to_the_end(pipeline);
  const int all = *std::max_element(hops.begin(), hops.end());
  const int kept = std::min(most, lead * all + 1);
  std::vector<std::vector<Action>> rows;
  for (const std::vector<int>& stages : groups.stages) {
    const int stage = stages[0];
    const int own = hops[static_cast<size_t>(stage)];
    // Of fewer than a micro-batch takes there and back, as many as there may be.
    const int ahead = std::min({lead * own, own + std::max(kept - all - 1, 0), kept - 1});
    const int late = kept - 1 - ahead;
    RowWriter row(micro_batches);
    for (int i = 0; i < ahead; ++i) row.forward(stage);
    for (int i = 0; i < micro_batches + late; ++i) {
      row.forward(stage);
      if (i < micro_batches) row.input_gradient(stage);
      if (i >= late) row.weight_gradient(stage);
    }
    rows.push_back(row.take());
  }
  return with_rows(name, pipeline, groups, micro_batches, rows);
}

}  // namespace kerf::schedmp
