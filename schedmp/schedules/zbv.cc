// Two workers, stages 0 and 3 on the first, 1 and 2 on the second; I and W apart:
//
//   worker 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 3W2 0I1 0W1 ...
//   worker 1      1F0 2F0 1F1 2F1 ...
//
// ZBV (Qi et al. 2023, arXiv:2401.10241, section 6): stages go there and back, so that each worker
// has as much to keep as any, and the memory of 1F1B; where F, I and W take as long, no worker is
// idle between its first action and its last. That takes 2p - 1 micro-batches of p workers; of
// fewer it is the schedule of so many, less those that are not there.
#include <algorithm>

#include "schedmp/schedules/distinct_groups.h"

namespace kerf::schedmp {

namespace {

class ZbvRow {
 public:
  ZbvRow(int group, int groups, const std::vector<int>& stages, int micro_batches)
      : group_(group),
        groups_(groups),
        down_(stages[0]),
        up_(stages[1]),
        planned_(std::max(micro_batches, 2 * groups - 1)),
        row_(micro_batches) {}

  std::vector<Action> make() {
    warm_up();
    while (row_.forwards(up_) < planned_) {
      if (row_.forwards(down_) < planned_) row_.forward(down_);
      gradients(down_);
      row_.forward(up_);
      gradients(up_);
    }
    cool_down();
    return row_.take();
  }

 private:
  void gradients(int stage) {
    row_.input_gradient(stage);
    row_.weight_gradient(stage);
  }

  // Until its first micro-batch has gone to the end and back, and is to go on.
  void warm_up() {
    for (int i = 0; i < 2 * (groups_ - group_) - 1; ++i) row_.forward(down_);
    for (int i = 0; i < group_; ++i) {
      row_.forward(up_);
      row_.forward(down_);
    }
    for (int i = 0; i < groups_ - group_; ++i) {
      row_.forward(up_);
      gradients(up_);
    }
  }

  // What others wait for first; weights' gradients fill the time between.
  void cool_down() {
    for (int i = 0; i < group_; ++i) {
      row_.input_gradient(down_);
      row_.input_gradient(up_);
    }
    for (int i = 0; i < groups_ - group_; ++i) gradients(down_);
    for (const int stage : {up_, down_})
      while (row_.weight_gradients(stage) < planned_) row_.weight_gradient(stage);
  }

  int group_, groups_;
  int down_, up_;  // stages
  int planned_;    // micro-batches
  RowWriter row_;
};

}  // namespace

Schedule zbv(const Pipeline& pipeline, int micro_batches) {
  const DistinctGroups groups = placed_groups(shape_of("zbv"), "zbv", pipeline);
  std::vector<std::vector<Action>> rows;
  for (int group = 0; group < groups.count(); ++group)
    rows.push_back(
        ZbvRow(group, groups.count(), groups.stages[static_cast<size_t>(group)], micro_batches)
            .make());
  return with_rows("zbv", pipeline, groups, micro_batches, rows);
}

}  // namespace kerf::schedmp
