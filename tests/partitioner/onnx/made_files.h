// ONNX files written byte by byte, as nobody exports them: protobuf's fields, and models of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::partitioner::onnx {

// A field of bytes, and one of an integer.
std::string field(int number, const std::string& bytes);
std::string field(int number, uint64_t value);

struct ExternalTensor {
  std::string name;
  std::vector<uint64_t> shape;  // of float32
  std::string location;
  uint64_t offset = 0;
};
std::string node_message(const std::string& op, const std::vector<std::string>& inputs,
                         const std::string& output);
// Of opset 17, from "x", [N, 2], to "y".
std::string model_message(const std::vector<std::string>& nodes,
                          const std::vector<ExternalTensor>& weights);

}  // namespace kerf::partitioner::onnx
