// 1F1B whose gradients of weights come later: what zb-h1 and zb-h2 are made of.
#pragma once

#include <limits>
#include <string>

#include "schedmp/schedules/distinct_groups.h"

namespace kerf::schedmp {

// Of a pipeline of n hops, all stages keep `lead` n + 1 micro-batches, or `most` where it is less.
// One that is h hops from the end begins with `lead` h + 1 forwards, or as many fewer as keep the
// distance to the first stage, whose number is capped; W comes as late as it may.
Schedule later_weights(const std::string& name, int lead, const Pipeline& pipeline,
                       int micro_batches, int most = std::numeric_limits<int>::max());

}  // namespace kerf::schedmp
