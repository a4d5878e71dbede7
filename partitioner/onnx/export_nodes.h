// A model's nodes as ONNX has them. Used by one thread.
#pragma once

#include "partitioner/onnx/export_message.h"
#include "partitioner/onnx/export_scope.h"

namespace kerf::partitioner::onnx {

// Adds the node, after what must stand before it. Throws Error{kUsage} that names it.
void add_node(const Model& model, const ExportScope& scope, const Node& node,
              ExportMessage& message);

}  // namespace kerf::partitioner::onnx
