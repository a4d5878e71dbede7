// What of a model lives on from forward to its gradients, whatever the cut. Pure functions.
#pragma once

#include <set>

#include "partitioner/model.h"

namespace kerf::partitioner {

// Data and activations that gradients of this node's operands will read, where these have any. An
// alias is its input, which has the memory.
std::set<ValueId> kept_by(const Model& model, NodeId node);

}  // namespace kerf::partitioner
