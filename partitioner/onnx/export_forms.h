// What ONNX, or ONNX Runtime, has in another form than Kerf's nodes: layouts of recurrent networks,
// masks, shapes that count samples. Used by one thread.
#pragma once

#include <string>
#include <vector>

#include "partitioner/onnx/export_message.h"

namespace kerf::partitioner::onnx {

// ONNX Runtime has no layout of recurrent networks but that of steps first.
bool has_samples_first(const Node& node);
// Such a node, as `made` has it but for the layout, with its operands turned over.
void add_steps_first(::onnx::NodeProto made, ExportMessage& message);

// ONNX Runtime wants an Attention's mask to have all pairs of query and key.
void repeat_mask(const Model& model, const Node& node, ::onnx::NodeProto& made,
                 ExportMessage& message);

// [N, 4, 3] as an input of Expand's, which in ONNX has no -1; the input's name.
std::string add_batched_shape(const std::string& node, const std::vector<int64_t>& shape,
                              ExportMessage& message);

}  // namespace kerf::partitioner::onnx
