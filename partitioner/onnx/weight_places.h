// Which tensors of a graph are weights: what stands in the places of weights and biases. Pure
// functions.
#pragma once

#include <set>
#include <string>

#include "partitioner/onnx/graph.h"

namespace kerf::partitioner::onnx {

// Names of values that are read as weights, and of what those are reshaped or transposed of.
// Scalars may be among them.
struct WeightPlaces {
  std::set<std::string> operands;  // of operators that have weights and biases
  std::set<std::string> shifts;    // added to or multiplied with what those compute; masks, too
  std::set<std::string> tables;    // among operands, those that rows are picked of
  // Joined in any way with what is computed with weights, however long before: weights by their
  // names only, since buffers may be, too.
  std::set<std::string> joined;
  std::set<std::string> beside;  // and with what no weights have computed
  // Constants of nodes and what is computed of such alone: no initializers.
  std::set<std::string> literals;
};
WeightPlaces weight_places(const Graph& graph);

}  // namespace kerf::partitioner::onnx
