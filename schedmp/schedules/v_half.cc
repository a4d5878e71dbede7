// V-Half (Qi et al. 2024, arXiv:2405.15362): half of 1F1B's memory, about half of its idle time.
// Stages go there and back; a micro-batch goes one way at the speed of the pipeline and the other
// at half of it, which keeps (p + 2) / 2 micro-batches on each of p workers, rounded down, of both
// chunks together.
#include "schedmp/schedules/v_block.h"

namespace kerf::schedmp {

Schedule v_half(const Pipeline& pipeline, int micro_batches) {
  const VBlock slow_at_the_ends{2, 1, 1, 2};  // of two and of four workers alone
  const VBlock slow_upwards{1, 2, 1, 2};
  return repeat_block("v-half", {slow_at_the_ends, slow_upwards}, pipeline, micro_batches);
}

}  // namespace kerf::schedmp
