// The batch of a graph whose file fixes it: what was written for one size holds for any. Pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/onnx/known.h"

namespace kerf::partitioner::onnx {

// The elements of one sample that lie before it in memory, of a value whose batch axis counts
// `outer` of them (or none: 1) for each sample before it goes on to the next: [7N, D] that was
// [7, N, D] lies as 7, N, D, and one that was [N, 7, D] as N, 7 D.
int64_t before_batch(const ops::Shape& shape, int64_t outer);
// That `outer` of the same elements in another shape. Nothing where the batch axis of that lies
// across the samples: what is computed for each of its indices would be of several.
std::optional<int64_t> outer_in(const ops::Shape& shape, int64_t before);

// Reshape's attribute `shape` for a value of shape `from`, with `outer` as above: with -1 where the
// batch goes, if there is one. `wanted` is the file's, `fixed_batch` what the file has for the
// batch, if it says a number. Throws Error{kUsage} where no axis of the result can be the batch.
std::vector<int64_t> reshape_to(const ops::Shape& from, int64_t outer,
                                const std::vector<Affine>& wanted,
                                std::optional<int64_t> fixed_batch);

// The operands of a node that are repeated to the shape of others, as NumPy does it.
bool is_repeated(const std::string& op, size_t input);

// Indices of the file's axis that counts `each` for a sample; nothing where no axis has so many.
std::optional<int64_t> of_samples(int64_t each, int64_t samples);
// Of a Resize: those that it says something of.
std::vector<int64_t> resized_axes(const GraphNode& resize, int rank);

}  // namespace kerf::partitioner::onnx
