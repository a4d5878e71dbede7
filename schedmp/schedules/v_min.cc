// V-Min (Qi et al. 2024, arXiv:2405.15362): the least memory of a pipeline whose stages go there
// and back, a third of 1F1B's: every micro-batch goes to the end and back without a stop, so that
// each of p workers keeps (p + 4) / 3 of them, rounded down, of both chunks together. Idle for
// about two thirds of 1F1B's time where F, I and W take as long; where they differ, longer.
#include "schedmp/schedules/v_block.h"

namespace kerf::schedmp {

Schedule v_min(const Pipeline& pipeline, int micro_batches) {
  return repeat_block("v-min", {VBlock{}}, pipeline, micro_batches);
}

}  // namespace kerf::schedmp
