// What of a model a file of its answers has. Computed once; a plain value that borrows the model.
#pragma once

#include <string>
#include <vector>

#include "partitioner/model.h"

namespace kerf::partitioner::onnx {

class ExportScope {
 public:
  // Throws Error{kUsage} that names a node for which ONNX has nothing.
  explicit ExportScope(const Model& model);

  // The model's; of one with a loss that names none, the scores before it.
  const std::vector<Result>& results() const { return results_; }
  // The opset that has all of it.
  int opset() const { return opset_; }
  // What a Dropout passes on, in answers as it is; else the value itself.
  ValueId behind_dropouts(ValueId id) const;
  bool has(ValueId id) const { return needed_[static_cast<size_t>(id)]; }
  bool has(const Node& node) const;
  // Parameters, constants, states.
  std::vector<ValueId> kept() const;

 private:
  void mark_needed();
  void choose_opset();

  const Model& model_;
  int opset_;
  std::vector<Result> results_;
  std::vector<bool> needed_;  // by value
};

// "lenet5: node conv1 (Conv)".
std::string place_of(const Model& model, const Node& node);

}  // namespace kerf::partitioner::onnx
