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
#include <algorithm>
#include <deque>

#include "schedmp/schedules/distinct_groups.h"

namespace kerf::schedmp {

namespace {

class DualPipeRow {
 public:
  DualPipeRow(int group, int groups, const std::vector<int>& stages, int micro_batches)
      : group_(group),
        after_(groups - 1 - group),
        down_(stages[0]),
        up_(stages[1]),
        planned_(std::max(micro_batches, 2 * groups)),
        row_(micro_batches) {}

  std::vector<Action> make() {
    warm_up();
    for (int i = 0; i < planned_ - 2 * (after_ + 1 + group_) + group_ + 1; ++i) {
      row_.forward(down_);
      row_.backward(up_);
      row_.forward(up_);
      row_.backward(down_);
    }
    for (int i = 0; i < after_; ++i) {
      row_.backward(up_);
      row_.forward(up_);
      row_.backward(down_);
    }
    cool_down();
    return row_.take();
  }

 private:
  void warm_up() {
    for (int i = 0; i < 2 * after_; ++i) row_.forward(down_);
    for (int i = 0; i <= group_; ++i) {
      row_.forward(down_);
      row_.forward(up_);
    }
    for (int i = 0; i < after_; ++i) {
      gradient(up_, true);
      weight_gradient();
      row_.forward(up_);
    }
  }

  // In the second half of its last backwards, what others wait for goes first.
  void cool_down() {
    const int backwards = 2 * (group_ + 1);
    const int whole = 2 * ((group_ + 1) / 2) + (group_ % 2 == 0 ? 1 : 0);
    for (int i = 0; i < backwards; ++i) gradient(i % 2 == 0 ? up_ : down_, i >= whole);
    for (int i = 0; i < after_; ++i) {
      weight_gradient();
      gradient(down_, true);
    }
    while (!waiting_.empty()) weight_gradient();
  }

  void gradient(int stage, bool alone) {
    if (!alone) return row_.backward(stage);
    row_.input_gradient(stage);
    waiting_.push_back(stage);
  }
  void weight_gradient() {
    row_.weight_gradient(waiting_.front());
    waiting_.pop_front();
  }

  int group_, after_;        // how many groups come after it
  int down_, up_;            // stages
  int planned_;              // micro-batches
  std::deque<int> waiting_;  // stages whose W has yet to come, in the order of their I
  RowWriter row_;
};

}  // namespace

Schedule dualpipe_v(const Pipeline& pipeline, int micro_batches) {
  const DistinctGroups groups = placed_groups(shape_of("dualpipe-v"), "dualpipe-v", pipeline);
  std::vector<std::vector<Action>> rows;
  for (int group = 0; group < groups.count(); ++group)
    rows.push_back(
        DualPipeRow(group, groups.count(), groups.stages[static_cast<size_t>(group)], micro_batches)
            .make());
  return with_rows("dualpipe-v", pipeline, groups, micro_batches, rows);
}

}  // namespace kerf::schedmp
