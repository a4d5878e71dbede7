// A model as a cost graph: the one place where planning on cost graphs meets operators.
#pragma once

#include "partitioner/cost_graph.h"
#include "partitioner/cut.h"

namespace kerf::partitioner {

// Nodes are the model's nodes. Work is seconds (or FLOPs) of one step of the request; users of one
// parameter have one colour; a value's bytes and times are those of a step, with its gradient's.
// What a node holds is that of a stage of its own: what several hold counts once.
CostGraph cost_graph_of(const Model& model, const PlanRequest& request);

}  // namespace kerf::partitioner
