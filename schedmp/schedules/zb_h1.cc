// stage 0  F0 F1 F2       I0 W0 F3 I1 W1    I2 W2    I3 W3 U
// stage 1     F0 F1    I0 F2 I1 W0 F3 I2 W1 I3 W2 W3 U
// stage 2        F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3 U
//
// ZB-H1 (Qi et al. 2023, arXiv:2401.10241): 1F1B whose gradients of weights wait for
// as long as its memory allows, so that no stage keeps more micro-batches than the first. Of stages
// that are alike a step takes m(F + I + W) + (p - 1)(F + I - W).
#include "schedmp/schedules/later_weights.h"

namespace kerf::schedmp {

Schedule zb_h1(const Pipeline& pipeline, int micro_batches) {
  return later_weights("zb-h1", 1, pipeline, micro_batches);
}

}  // namespace kerf::schedmp
