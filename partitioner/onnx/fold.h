// Folding: arithmetic and moves of small integer tensors, as exporters write them around shapes.
// Pure functions.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "partitioner/onnx/known.h"

namespace kerf::partitioner::onnx {

// What a node gives for inputs that are all known (absent ones null), of an operator in the newest
// meaning, narrowed to its type; nothing where the operator is no such, or the result depends on
// how large the batch is. Throws Error{kUsage} for inputs that no such node has.
using FoldInputs = std::vector<const Integers*>;
std::optional<std::vector<Integers>> fold(const GraphNode& node, const FoldInputs& inputs);

// The two halves of the table, by files: moves of elements, and arithmetic on them.
std::optional<std::vector<Integers>> fold_move(const GraphNode& node, const FoldInputs& inputs);
std::optional<std::vector<Integers>> fold_arithmetic(const GraphNode& node,
                                                     const FoldInputs& inputs);

// ---- for those

// An attribute that newer opsets have as an input. Nothing where the input depends on the batch.
std::optional<std::vector<int64_t>> ints_of(const GraphNode& node, const FoldInputs& inputs,
                                            const char* name, size_t input);
// Throws Error{kUsage} for an axis that there is not.
size_t axis_of(int64_t axis, size_t rank);

// ---- shapes of what is read with another: the same elements

// Of a Squeeze, without axes all of one index; of an Unsqueeze; of a Reshape, where `zeros` (its
// allowzero) says whether a 0 is an extent. Throw Error{kUsage} for what is no shape.
std::vector<int64_t> squeezed(const std::vector<int64_t>& shape, const std::vector<int64_t>& axes);
std::vector<int64_t> unsqueezed(const std::vector<int64_t>& shape,
                                const std::vector<int64_t>& axes);
std::vector<int64_t> with_extents(const std::vector<int64_t>& shape, std::vector<int64_t> wanted,
                                  bool zeros);

}  // namespace kerf::partitioner::onnx
