// Nodes that have no part in what a model answers: once shapes are folded, nobody reads what they
// were taken of. Pure function.
#pragma once

#include <string>
#include <vector>

#include "partitioner/model.h"

namespace kerf::partitioner::onnx {

// The model without nodes that neither results nor the loss need, and without what only those read;
// inputs that go are noted.
Model pruned(const Model& model, std::vector<std::string>& notes);

}  // namespace kerf::partitioner::onnx
