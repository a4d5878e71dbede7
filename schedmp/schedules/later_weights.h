// 1F1B whose gradients of weights come later: what zb-h1 and zb-h2 are made of.
#pragma once

#include <string>

#include "schedmp/schedules/distinct_groups.h"

namespace kerf::schedmp {

// A stage that is h hops from the end and b hops after the first begins with `lead` h + 1 forwards,
// and has the W of a micro-batch after the I of the one that is `lead` b behind it, so that all
// keep as many micro-batches.
Schedule later_weights(const std::string& name, int lead, const Pipeline& pipeline,
                       int micro_batches);

}  // namespace kerf::schedmp
