#include "partitioner/onnx/fold.h"

#include "runtime/error.h"

namespace kerf::partitioner::onnx {

std::optional<std::vector<Integers>> fold(const GraphNode& node, const FoldInputs& inputs) {
  if (inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  if (auto moved = fold_move(node, inputs)) return moved;
  return fold_arithmetic(node, inputs);
}

}  // namespace kerf::partitioner::onnx
