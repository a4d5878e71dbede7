#include "partitioner/onnx/fold.h"

#include "runtime/error.h"

namespace kerf::partitioner::onnx {

std::optional<std::vector<Integers>> fold(const GraphNode& node, const FoldInputs& inputs) {
  if (inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  auto folded = fold_move(node, inputs);
  if (!folded) folded = fold_arithmetic(node, inputs);
  if (folded)
    for (Integers& result : *folded) {
      elements_in(result.shape);
      for (Affine& each : result.elements) each = narrowed(each, result.dtype);
    }
  return folded;
}

}  // namespace kerf::partitioner::onnx
