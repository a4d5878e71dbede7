// Operators that others stand for, in every opset that has them.
#include <algorithm>
#include <cstring>

#include "ops/onnx_types.h"
#include "partitioner/onnx/adapting.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::DType;
using Ints = std::vector<int64_t>;

// The statistics that a node gives beside the answers are the running ones, as they become.
Adapted batch_normalization(Older older) {
  if (older.taken_int("spatial", 1) == 0)
    no_meaning("spatial 0, a mean for every position, is not known here");
  older.node.attributes.erase("is_test");
  if (older.node.outputs.size() < 2) return {std::move(older.node)};
  if (older.opset < 14)
    no_meaning("its statistics as outputs are known from opset 14 on; export it for inference");
  if (older.node.outputs.size() != 3 || older.node.inputs.size() != 5)
    no_meaning("it has 5 inputs, and 1 or 3 outputs");
  const auto keep =
      static_cast<float>(ops::attribute_float(older.node.attributes, "momentum", 0.9));
  const std::vector<std::string> outputs = older.node.outputs;
  const std::vector<std::string> inputs = older.node.inputs;
  NodeChain made(older);
  const std::string kept = made.filled({1}, keep);
  const std::string taken = made.filled({1}, 1 - keep);
  const std::string mean = older.inner("mean");
  const std::string variance = older.inner("variance");
  GraphNode node = older.node;
  node.outputs = {outputs[0], mean, variance};
  made.add(std::move(node));
  const auto follow = [&](const std::string& before, const std::string& now,
                          const std::string& output) {
    if (output.empty()) return;
    made.add("Add", {made.add("Mul", {before, kept}), made.add("Mul", {now, taken})}, {}, output);
  };
  follow(inputs[3], mean, outputs[1]);
  follow(inputs[4], variance, outputs[2]);
  return made.take();
}

// From opset 21 on it has scale and bias of channels; before, of groups.
Adapted group_normalization(Older older) {
  const ops::Shape shape = older.shape_of(0);
  const int64_t groups = ops::attribute_int(older.node.attributes, "num_groups", 0);
  const bool of_groups = older.opset < 21 && older.node.inputs.size() == 3 && shape.rank() >= 2 &&
                         groups > 0 && older.shape_of(1) == ops::Shape{groups} &&
                         groups != shape[1];
  if (older.opset < 21 && older.node.inputs.size() == 3 && !of_groups && groups != shape[1])
    no_meaning("before opset 21 it has a scale and a bias for each group");
  if (!of_groups) return {std::move(older.node)};
  NodeChain made(older);
  Ints back;
  for (const int64_t extent : shape) back.push_back(extent < 0 ? -1 : extent);
  const std::string normal =
      made.add("GroupNormalization",
               {older.node.inputs[0], made.filled({shape[1]}, 1), made.filled({shape[1]}, 0)},
               older.node.attributes);
  int64_t each = 1;  // numbers of a group
  for (int axis = 1; axis < shape.rank(); ++axis) each *= shape[axis];
  const int64_t samples = shape[0] < 0 ? -1 : shape[0];
  const std::string apart =
      made.add("Reshape", {normal}, {{"shape", Ints{samples, groups, each / groups}}});
  const auto of_rows = [&](size_t input) {
    return made.add("Unsqueeze", {older.node.inputs[input]}, {{"axes", Ints{1}}});
  };
  const std::string scaled = made.add("Mul", {apart, of_rows(1)});
  made.add("Reshape", {made.add("Add", {scaled, of_rows(2)})}, {{"shape", back}});
  return made.end();
}

Adapted cast_like(Older older) {
  older.node.op = "Cast";
  older.node.attributes["to"] = int64_t{ops::onnx_type(older.spec_of(1).dtype)};
  older.node.inputs.resize(1);
  return {std::move(older.node)};
}

// What ScatterElements was called before opset 11.
Adapted scatter(Older older) {
  older.node.op = "ScatterElements";
  return {std::move(older.node)};
}

// Without an axis it picks of all elements, in their order.
Adapted compress(Older older) {
  const ops::Shape shape = older.shape_of(0);
  if (older.has("axis") || shape.rank() == 1 || shape.batched()) return {std::move(older.node)};
  NodeChain made(older);
  const std::string flat =
      made.add("Reshape", {older.input(0)}, {{"shape", Ints{shape.elements()}}});
  GraphNode node = older.node;
  node.inputs[0] = flat;
  node.attributes["axis"] = int64_t{0};
  made.add(std::move(node));
  return made.take();
}

// The greatest of bytes, as of the floats that they are.
Adapted max_pool(Older older) {
  const DType dtype = older.spec_of(0).dtype;
  if (dtype != DType::kUint8 && dtype != DType::kInt8) return {std::move(older.node)};
  if (older.node.outputs.size() > 1) no_meaning("it has no Indices of bytes");
  NodeChain made(older);
  const std::string x =
      made.add("Cast", {older.node.inputs[0]}, {{"to", int64_t{ops::onnx_type(DType::kFloat32)}}});
  made.add("Cast", {made.add("MaxPool", {x}, older.node.attributes)},
           {{"to", int64_t{ops::onnx_type(dtype)}}});
  return made.end();
}

}  // namespace

std::string NodeChain::filled(const ops::Shape& shape, float number) {
  constexpr int64_t kMost = 1 << 24;
  if (shape.batched() || shape.elements() > kMost)
    no_meaning(format("it needs a constant of shape {}", to_string(shape)));
  std::string bytes;
  for (int64_t i = 0; i < shape.elements(); ++i)
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  return add("Constant", {}, {{"value", ops::TensorLiteral{DType::kFloat32, shape, bytes}}});
}

const AdaptRows& expanded_rows() {
  static const AdaptRows rows{
      {"BatchNormalization", batch_normalization},
      {"GroupNormalization", group_normalization},
      {"CastLike", cast_like},
      {"Scatter", scatter},
      {"ScatterElements", [](Older older) -> Adapted { return {std::move(older.node)}; }},
      {"Compress", compress},
      {"MaxPool", max_pool}};
  return rows;
}

}  // namespace kerf::partitioner::onnx
