// kerf plan MODEL|GRAPH --front: the plans of which none is better in bottleneck, bytes and memory.
#pragma once

#include "apps/kerf/planned.h"
#include "partitioner/graph_plan.h"

namespace kerf::apps {

void answer_front(const partitioner::CostGraph& graph, const partitioner::GraphRequest& request,
                  bool json);
// Of a model, for the request of a plan that was made.
void answer_front(const PlanFlags& flags, const Planned& planned, bool json);

}  // namespace kerf::apps
