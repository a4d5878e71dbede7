// Reading ONNX files. Pure functions of files; everything in them is hostile until it was checked.
#pragma once

#include <filesystem>

#include "partitioner/onnx/graph.h"

namespace kerf::partitioner::onnx {

// A model's graph in topological order, without what no output needs. Weights stay in the file, or
// in files beside it. Throws Error{kUsage} that names file and place: a message that is none or cut
// short, weights outside the model's folder or of another size than they say, an opset that is not
// known, values given twice or by nothing, cycles.
Graph read_graph(const std::filesystem::path& path);

// A tensor by itself, in a message of its own: data of ONNX's tests. Throws Error{kUsage}.
ops::TensorLiteral read_tensor(const std::filesystem::path& path);

}  // namespace kerf::partitioner::onnx
