// Weights that a person gives for a model of an ONNX file: whether its names mean the same.
#pragma once

#include <string>
#include <vector>

#include "partitioner/model.h"
#include "partitioner/onnx/import.h"

namespace kerf::apps {

// Throws Error{kUsage} that names the file of weights, and what it lacks of the model's; and where
// the model would not have the weights: its file has other numbers in constants, has tensors put
// together, or one for several. Gives notes of what nothing has the name of; does nothing if
// `weights` is empty.
// `folded` is what the model's file has besides, if `source` is of one.
std::vector<std::string> check_weights(const partitioner::Model& model, const std::string& source,
                                       const partitioner::onnx::FoldedWeights& folded,
                                       const std::string& weights);

}  // namespace kerf::apps
