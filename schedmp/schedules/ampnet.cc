//   worker 0  0F0 0F1 0F2 0B0@0 0U0       0F3 0B1@0 0U1 ...
//   worker 1      1F0 1F1       1B0@0 1U0     1F2 1B1@0 1U1 ...
//   worker 2          2F0 2B0@0 2U0 2F1 2B1@0 2U1 ...
//
// After AMPNet (Gaunt et al. 2017, arXiv:1705.09786): every micro-batch updates the weights, and
// each action reads the newest there are, forward and back alike: one version is kept, and a
// gradient is of two. No more micro-batches are under way than there are workers from a stage to
// the end. AMPNet takes messages as they come; here the order is written down beforehand, so that
// it can be proved and repeated.
#include "schedmp/schedules/endless_rows.h"

namespace kerf::schedmp {

Schedule ampnet(const Pipeline& pipeline, int micro_batches) {
  const auto written = [](Action action) {
    if (action.kind == ActionKind::kBackward) action.version = 0;
    return action;
  };
  return endless_rows("ampnet", pipeline, micro_batches,
                      {.written = written, .updates = [](int) { return true; }});
}

}  // namespace kerf::schedmp
