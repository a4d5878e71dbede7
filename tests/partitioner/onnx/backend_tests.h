// ONNX's own tests, by importer and kernels: each a folder with a model, inputs and outputs.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "partitioner/onnx/evaluate.h"

namespace kerf::partitioner::onnx {

// Debian's libonnx-testdata.
inline constexpr const char* kBackendData = "/usr/share/libonnx-testdata/data";

struct BackendResult {
  std::string name;     // "node/test_relu"
  std::string failure;  // empty: it passed
  std::set<std::string> ops;
  std::set<std::string> types;  // of its inputs
};

// Of all classes of tests that are models: node, pytorch-converted, pytorch-operator, simple.
std::vector<std::filesystem::path> backend_tests(const std::filesystem::path& data);
BackendResult run_backend_test(const std::filesystem::path& folder, Evaluator& evaluator);

}  // namespace kerf::partitioner::onnx
