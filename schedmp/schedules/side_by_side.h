// The order in which stages that share workers take micro-batches all one way, forward or back:
//
//   worker 0   0F0 0F1 2F0 0F2 2F1 0F3 2F2 2F3       stages 0 and 2
//   worker 1       1F0 1F1 3F0 1F2 3F1 1F3 3F2 3F3   stages 1 and 3
//
// Micro-batch m comes to a stage at the moment m plus its hops (stage_graph.h), so that those that
// follow each other on other workers run side by side; of one moment the earlier micro-batch first,
// which is the later stage's. Nothing is sent before what was sent there last is received: one slot
// does. Where an edge leads over several hops that would not be so, and each micro-batch goes
// through all stages before the next. On workers of one stage each both are the same.
#pragma once

#include <functional>

#include "schedmp/schedules.h"

namespace kerf::schedmp {

using Visit = std::function<void(int stage, int micro_batch)>;
void visit_forward(const Pipeline& pipeline, int micro_batches, const Visit& visit);
void visit_backward(const Pipeline& pipeline, int micro_batches, const Visit& visit);

}  // namespace kerf::schedmp
