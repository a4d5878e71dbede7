#include "tests/partitioner/onnx/made_files.h"

namespace kerf::partitioner::onnx {
namespace {

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

// Key and value of a StringStringEntryProto.
std::string entry(const std::string& key, const std::string& value) {
  return field(1, key) + field(2, value);
}

std::string tensor_message(const ExternalTensor& tensor) {
  std::string bytes;
  for (const uint64_t extent : tensor.shape) bytes += field(1, extent);
  bytes += field(2, uint64_t{1});  // float32
  bytes += field(8, tensor.name);
  bytes += field(13, entry("location", tensor.location));
  bytes += field(13, entry("offset", std::to_string(tensor.offset)));
  return bytes + field(14, uint64_t{1});  // external
}

// [N, 2] of float32.
std::string value_message(const std::string& name) {
  const std::string shape = field(1, field(2, "N")) + field(1, field(1, uint64_t{2}));
  const std::string type = field(1, field(1, uint64_t{1}) + field(2, shape));
  return field(1, name) + field(2, type);
}

}  // namespace

std::string field(int number, const std::string& bytes) {
  return varint(static_cast<uint64_t>(number) << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string field(int number, uint64_t value) {
  return varint(static_cast<uint64_t>(number) << 3) + varint(value);
}

std::string node_message(const std::string& op, const std::vector<std::string>& inputs,
                         const std::string& output) {
  std::string bytes;
  for (const std::string& input : inputs) bytes += field(1, input);
  return bytes + field(2, output) + field(3, output + ".node") + field(4, op);
}

std::string model_message(const std::vector<std::string>& nodes,
                          const std::vector<ExternalTensor>& weights) {
  std::string graph;
  for (const std::string& node : nodes) graph += field(1, node);
  for (const ExternalTensor& weight : weights) graph += field(5, tensor_message(weight));
  graph += field(11, value_message("x")) + field(12, value_message("y"));
  return field(1, uint64_t{8}) + field(7, graph) + field(8, field(2, uint64_t{17}));
}

}  // namespace kerf::partitioner::onnx
