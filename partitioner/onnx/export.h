// From a model to an ONNX file. Pure function of a model and its weights.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "partitioner/model.h"

namespace kerf::partitioner::onnx {

// The oldest opset that is written; newer where an operator of the model is newer.
inline constexpr int kExportedOpset = 18;

// All bytes of a value that the model keeps (no constant).
using WeightsOf = std::function<std::string(const Value& value)>;

// Writes what the model answers: its results; of a model with a loss, the scores before it.
// Dropouts are left out, batch normalisations have their running statistics. The model's images lie
// channels first. Atomic. Throws Error{kUsage} that names a node for which ONNX has nothing, and
// for 2 GiB and more.
void export_file(const Model& model, const WeightsOf& weights, const std::filesystem::path& path);

}  // namespace kerf::partitioner::onnx
