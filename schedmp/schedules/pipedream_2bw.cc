// An update for each two micro-batches:
//
//   worker 0  0F0 0F1 0F2 0B0         0F3 0B1 0U1     0F4@-1 0B2 ...
//   worker 1      1F0 1F1     1B0     1F2 1B1 1U1     1F3@-1 1B2 ...
//
// PipeDream-2BW (Narayanan et al. 2020, arXiv:2006.09503): gradients of a whole period are added
// up, and every stage applies them one update later than a single worker would: W(t+1) = W(t) -
// the gradient of W(t-1). Two versions of the weights do on every stage, whatever their number,
// where a period has at least as many micro-batches as a stage is ahead.
#include <algorithm>

#include "runtime/error.h"
#include "schedmp/schedules/endless_rows.h"

namespace kerf::schedmp {

Schedule pipedream_2bw(const Pipeline& pipeline, int micro_batches) {
  const std::vector<int> hops = hops_to_the_end(pipeline);
  const int ahead = hops.empty() ? 0 : *std::max_element(hops.begin(), hops.end());
  if (micro_batches < ahead)
    throw Error(ErrorCode::kUsage,
                kerf::format("schedule pipedream-2bw needs {} micro-batches, as the first stage is "
                             "so many ahead, not {}: of fewer there were more than two versions of "
                             "the weights",
                             ahead, micro_batches));
  // What is of the next period comes before this one's update, and reads the newest weights.
  const auto written = [=](Action action) {
    const bool later = action.micro_batch >= micro_batches;
    if (action.kind == ActionKind::kForward && !later) action.version = -1;
    return action;
  };
  return endless_rows(
      "pipedream-2bw", pipeline, micro_batches,
      {.written = written, .updates = [=](int mb) { return mb == micro_batches - 1; }});
}

}  // namespace kerf::schedmp
