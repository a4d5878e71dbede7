// What is left when some nodes' results have become known: whatever nobody needs goes.
#pragma once

#include "partitioner/model.h"

namespace kerf::partitioner::onnx {

// The model without the nodes, and what only they read, that have no part in its results or its
// loss. Inputs stay. Pure function.
Model pruned(const Model& model);

}  // namespace kerf::partitioner::onnx
