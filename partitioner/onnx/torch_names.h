// What PyTorch calls a weight that its exporter renamed.
//
// torch.onnx.export keeps the names of a model's parameters; but where it turns a weight over or
// puts some together at once, the result is called "onnx::MatMul_215", or "val_32" by its newer
// form. The name is known from the bias that is added, or from the module that the node is of: it
// is called after it ("/layers/layers.0/linear/MatMul"), or says it in its metadata. What is not
// certain keeps the file's name. Pure functions.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "partitioner/onnx/graph.h"
#include "partitioner/stored_form.h"

namespace kerf::partitioner::onnx {

// By initializer, or what an Identity calls it: weights of Linear [in, out], of LSTM, GRU and RNN
// all gates and directions.
std::map<std::string, std::shared_ptr<const StoredForm>> torch_forms(const Graph& graph);

// "encoder.layers.0.linear1" of "/encoder/layers.0/linear1/MatMul"; empty of other names.
std::string module_of(const std::string& node_name);

}  // namespace kerf::partitioner::onnx
