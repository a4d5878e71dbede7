#include "schedmp/schedules/later_weights.h"

#include <algorithm>

namespace kerf::schedmp {

Schedule later_weights(const std::string& name, int lead, const Pipeline& pipeline,
                       int micro_batches) {
  const DistinctGroups groups = placed_groups(shape_of(name), name, pipeline);
  const std::vector<int> hops = hops_to_the_end(pipeline);
  const int most = *std::max_element(hops.begin(), hops.end());
  std::vector<std::vector<Action>> rows;
  for (const std::vector<int>& stages : groups.stages) {
    const int stage = stages[0];
    const int own = hops[static_cast<size_t>(stage)];
    RowWriter row(micro_batches);
    for (int i = 0; i < lead * own; ++i) row.forward(stage);
    for (int i = 0; i < micro_batches + lead * (most - own); ++i) {
      row.forward(stage);
      if (i < micro_batches) row.input_gradient(stage);
      if (i >= lead * (most - own)) row.weight_gradient(stage);
    }
    rows.push_back(row.take());
  }
  return with_rows(name, pipeline, groups, micro_batches, rows);
}

}  // namespace kerf::schedmp
