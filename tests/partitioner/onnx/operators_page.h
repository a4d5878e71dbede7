// docs/operators.md: what Kerf knows of each operator, from its definition, its conformance cases
// and a run of ONNX's tests.
#pragma once

#include <string>
#include <vector>

#include "tests/partitioner/onnx/backend_tests.h"

namespace kerf::partitioner::onnx {

std::string operators_page(const std::vector<BackendResult>& results);

}  // namespace kerf::partitioner::onnx
