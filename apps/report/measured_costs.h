// What the actions of a run took, as costs that `kerf schedule --costs` reads. Pure function.
#pragma once

#include <vector>

#include "apps/report/step_spans.h"
#include "schedmp/unfold.h"

namespace kerf::apps {

// Seconds: of each stage the median F, I and W over these steps and all workers of the stage, less
// what they wait, and all of its updates in a step; of a B that goes at once, I and W as its
// operators share it. COMM is the median of messages between two workers, from when they were sent
// to when a receiver that was waiting had them, there and back; of all pairs the median. Where none
// ever waited, the least of all messages, which took no longer. Where micro-batches differ by their
// `shares` of rows, F, I and W are those of the largest, and shares of seconds what was measured.
schedmp::ActionCosts measured_costs(const schedmp::Schedule& schedule,
                                    const std::vector<std::vector<schedmp::Action>>& shown,
                                    const std::vector<StepSpans>& steps,
                                    std::vector<schedmp::MicroBatchShare> shares = {});

}  // namespace kerf::apps
