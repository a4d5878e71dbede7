// The batch of a graph whose file fixes it: what was written for one size holds for any. Pure
// functions.
#pragma once

#include <optional>
#include <vector>

#include "partitioner/onnx/known.h"

namespace kerf::partitioner::onnx {

// Reshape's attribute `shape` for a value of shape `from`: with -1 where the batch goes, if there
// is one. `wanted` is the file's, `fixed_batch` what the file has for the batch, if it says a
// number. Throws Error{kUsage} where no axis of the result can be the batch.
std::vector<int64_t> reshape_to(const ops::Shape& from, const std::vector<Affine>& wanted,
                                std::optional<int64_t> fixed_batch);

}  // namespace kerf::partitioner::onnx
