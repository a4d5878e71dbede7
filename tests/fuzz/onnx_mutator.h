// Changes of ONNX models as messages, where changes of bytes seldom leave a message at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kerf::tests {

// The model with one to four changes: fields of its messages, its nodes, names among those that it
// has, nodes of models that were seen before. Empty if it is no model. The same seed and history
// give the same.
std::optional<std::string> changed_model(const std::string& bytes, uint64_t seed);

}  // namespace kerf::tests
