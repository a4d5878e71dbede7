//   worker 0  0F0 0F1 0F2 0B0 0U0     0F3 0B1 0U1 ...
//   worker 1      1F0 1F1     1B0 1U0     1F2 1B1 1U1 ...
//   worker 2          2F0 2B0 2U0 2F1 2B1 2U1 ...
//
// PipeDream (Narayanan et al. 2019, SOSP; arXiv:1806.03377): every micro-batch updates the weights,
// and the pipeline never drains. A stage keeps the weights that the forwards of what is under way
// have read, so that a gradient is of one version ("weight stashing"): stage s of p keeps p - s of
// them, and its updates are p - s - 1 old.
#include "schedmp/schedules/endless_rows.h"

namespace kerf::schedmp {

Schedule pipedream(const Pipeline& pipeline, int micro_batches) {
  return endless_rows("pipedream", pipeline, micro_batches,
                      {.written = [](const Action& action) { return action; },
                       .updates = [](int) { return true; }});
}

}  // namespace kerf::schedmp
