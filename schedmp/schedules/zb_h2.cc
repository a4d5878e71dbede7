// stage 0  F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 ...
// stage 1     F0 F1 F2 I0 F3 I1 F4 I2 W0 ...
// stage 2        F0 I0 F1 I1 F2 I2 F3 I3 ...
//
// ZB-H2 (Qi et al. 2023, arXiv:2401.10241): the pipeline is filled with as many
// micro-batches as pass while the first goes to the end and back, 2p - 1 of p stages, so that no
// stage waits between its first action and its last where F, I and W take as long: its span is (p -
// 1)(F + I - 2W) longer than its work. The memory is nearly twice that of 1F1B. The paper updates
// each stage's weights as soon as its own gradients are there, before it is known whether all are
// finite and how large they are together; here every update stands at the row's end, behind what
// the step decides of all of them, so that none has to be taken back, and a step costs its fill and
// drain too.
#include "schedmp/schedules/later_weights.h"

namespace kerf::schedmp {

Schedule zb_h2(const Pipeline& pipeline, int micro_batches) {
  return later_weights("zb-h2", 2, pipeline, micro_batches);
}

}  // namespace kerf::schedmp
