#include "schedmp/schedules/dual_pipe_row.h"

#include <algorithm>
#include <deque>

namespace kerf::schedmp {

namespace {

class DualPipeRow {
 public:
  DualPipeRow(RowWriter& row, int group, int groups, const TwoWays& stages, int micro_batches)
      : row_(row),
        group_(group),
        after_(groups - 1 - group),
        down_(stages.down),
        up_(stages.up),
        planned_(std::max(micro_batches, 2 * groups)) {}

  void write() {
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

  RowWriter& row_;
  int group_, after_;        // how many groups come after it
  int down_, up_;            // stages
  int planned_;              // micro-batches
  std::deque<int> waiting_;  // stages whose W has yet to come, in the order of their I
};

}  // namespace

void write_dual_pipe_row(RowWriter& row, int group, int groups, const TwoWays& stages,
                         int micro_batches) {
  DualPipeRow(row, group, groups, stages, micro_batches).write();
}

}  // namespace kerf::schedmp
