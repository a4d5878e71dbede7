// Which tensors of a graph are weights: what stands in the places of weights and biases. Pure
// functions.
#pragma once

#include <set>
#include <string>

#include "partitioner/onnx/graph.h"

namespace kerf::partitioner::onnx {

// Names of values that are read as weights or biases, and of what those are reshaped or transposed
// of. Scalars and masks, which may be among them, the caller tells apart.
std::set<std::string> weight_places(const Graph& graph);

}  // namespace kerf::partitioner::onnx
