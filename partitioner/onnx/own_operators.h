// Which operators are Kerf's own, so that no file of ONNX's has them.
#pragma once

#include <string>

namespace kerf::partitioner::onnx {

bool is_own_operator(const std::string& op);

}  // namespace kerf::partitioner::onnx
