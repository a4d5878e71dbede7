// Weights that PyTorch's newer exporter made one of because they were equal, or computed for the
// batch of the file. Pure functions of a graph, by what it says of the program (torch_program.h).
#pragma once

#include <string>
#include <vector>

#include "partitioner/onnx/graph.h"

namespace kerf::partitioner::onnx {

// An initializer that a node reads under the name of another tensor of the program becomes a weight
// of that name, which begins with the same numbers. Tensors that were one in the program stay one.
void tell_apart(Graph& graph, std::vector<std::string>& notes);

// A parameter that was repeated for the batch of the file, as a class token is, is repeated here.
// Reads the numbers of such an initializer.
void repeat_here(Graph& graph);

}  // namespace kerf::partitioner::onnx
