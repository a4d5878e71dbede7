// From a model to an ONNX file. Pure function of a model and its weights.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "partitioner/model.h"

namespace kerf::partitioner::onnx {

// The oldest opset that is written; newer where an operator of the model is newer.
inline constexpr int kExportedOpset = 18;

// All bytes of a value that the model keeps (no constant).
using WeightsOf = std::function<std::string(const Value& value)>;

// Writes what the model answers: its results; of a model with a loss, the scores before it, of a
// language model [N, positions, classes].
// Dropouts are left out, batch normalisations have their running statistics. The model's images lie
// channels first. Throws Error{kUsage} that names a node for which ONNX has nothing.
//
// Weights lie in a file beside it, PATH.CHECKSUM.data, where that is asked for, and where the file
// would be larger than any may be. Atomic: that file is there, whole, before the model is.
struct ExportOptions {
  bool data_beside = false;
  size_t most_bytes = (size_t{1} << 31) - 1;  // of one file: as protobuf has it
  // Outputs that are the same for all inputs, by name, which follow the model's.
  std::map<std::string, ops::TensorLiteral> constants = {};
};
void export_file(const Model& model, const WeightsOf& weights, const std::filesystem::path& path,
                 const ExportOptions& options = {});

}  // namespace kerf::partitioner::onnx
