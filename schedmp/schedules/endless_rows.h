// 1F1B that never drains: what asynchronous schedules are made of. A stage that is w hops from the
// end (stage_graph.h) is w forwards ahead, and then takes one micro-batch forward and one back; the
// prologue has the forwards that it is ahead by.
//
//   worker 0  0F0 | 0F1 0B0 | 0F2 0B1 | 0F3 0B2 ...
//   worker 1      | 1F0 1B0 | 1F1 1B1 | 1F2 1B2 ...
#pragma once

#include <functional>
#include <string>

#include "schedmp/schedules.h"

namespace kerf::schedmp {

struct EndlessRule {
  // Of a period of so many micro-batches: what a forward or backward is written as.
  std::function<Action(Action action)> written;
  // Whether the stage updates behind the backward of this micro-batch of the period.
  std::function<bool(int micro_batch)> updates;
};

// One stage on each worker, or group. Throws Error{kUsage} that names the schedule.
Schedule endless_rows(const std::string& name, const Pipeline& pipeline, int micro_batches,
                      const EndlessRule& rule);

}  // namespace kerf::schedmp
