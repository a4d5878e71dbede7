// Models by a text that travels to workers: "lenet5", "mlp 784-512-10", or of an ONNX file a JSON
// object that says how it is read: {"onnx": "/data/resnet.onnx", "freeze": ["layer1.*"]}.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "partitioner/model.h"
#include "partitioner/onnx/import.h"

namespace kerf::apps {

// What the flags say of an ONNX file.
struct OnnxSource {
  std::string file;
  std::map<std::string, int64_t> dims = {};
  std::vector<std::string> train = {};
  std::vector<std::string> freeze = {};
  std::string loss = {};
  int64_t head = 0;
  bool train_batch_norms = false;
  bool answers = false;  // for them only: nothing is trained
};

// A model, and what a person should know of how it was read.
struct MadeModel {
  partitioner::Model model;
  std::vector<std::string> notes;
  // Outputs of an ONNX file that are the same for all inputs, by name.
  std::map<std::string, ops::TensorLiteral> constants = {};
  // Weights of an ONNX file that are in constants of the model only.
  partitioner::onnx::FoldedWeights folded = {};
};

// Its images lie channels last (partitioner/channels_last.h). Throws Error{kUsage} that lists the
// models or names the bad size.
partitioner::Model make_model(const std::string& source);
MadeModel make_model_with_notes(const std::string& source);
// The same with images as ONNX has them, channels first.
MadeModel make_plain_model(const std::string& source);

// Whether what a command was given as its model is a file.
bool names_onnx_file(const std::string& model);
// The text for a file, by its absolute path. Throws Error{kUsage} where there is none.
std::string model_source(const OnnxSource& onnx);

}  // namespace kerf::apps
