#include "partitioner/onnx/adapt.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "partitioner/onnx/adapting.h"

namespace kerf::partitioner::onnx {
namespace {

using Ints = std::vector<int64_t>;
using Nodes = Adapted;

GraphNode made(const Older& older, const std::string& what, const std::string& op,
               std::vector<std::string> inputs, std::vector<std::string> outputs,
               ops::Attributes attributes) {
  return {older.inner(what), op, std::move(attributes), std::move(inputs), std::move(outputs)};
}

// Input `input` with axes of 1 behind it, until it has `trailing` of them.
GraphNode padded_behind(Older& older, size_t input, int64_t trailing) {
  const int rank = older.shape_of(input).rank();
  Ints axes;
  for (int64_t i = 0; i < trailing; ++i) axes.push_back(rank + i);
  const std::string to = older.inner(older.node.inputs[input]);
  GraphNode node =
      made(older, "aligned", "Unsqueeze", {older.node.inputs[input]}, {to}, {{"axes", axes}});
  older.node.inputs[input] = to;
  return node;
}

// Before opset 7 the second input was repeated only where `broadcast` said so, from `axis` on.
Nodes of_pair(Older older) {
  if (older.opset >= 7) return {std::move(older.node)};
  const bool has_axis = older.has("axis");
  const int64_t axis = older.taken_int("axis", 0);
  older.node.attributes.erase("broadcast");
  if (!has_axis || older.node.inputs.size() != 2) return {std::move(older.node)};
  const int rank = older.shape_of(0).rank();
  const int64_t from = axis < 0 ? axis + rank : axis;
  const int64_t trailing = from < 0 ? -1 : rank - from - older.shape_of(1).rank();
  if (trailing < 0 || from > rank) no_meaning(format("axis {} is none of its inputs'", axis));
  if (trailing == 0) return {std::move(older.node)};
  GraphNode padded = padded_behind(older, 1, trailing);
  return {std::move(padded), std::move(older.node)};
}

// Before opset 13 all axes from `axis` on were one.
Nodes softmax(Older older) {
  if (older.opset >= 13) return {std::move(older.node)};
  const ops::Shape shape = older.shape_of(0);
  const int64_t given = older.taken_int("axis", 1);
  const int64_t axis = given < 0 ? given + shape.rank() : given;
  if (axis < 0 || axis > shape.rank()) no_meaning(format("there is no axis {}", given));
  const bool alone = std::all_of(shape.begin() + std::min<int64_t>(axis + 1, shape.rank()),
                                 shape.end(), [](int64_t extent) { return extent == 1; });
  if (axis < shape.rank() && alone) {
    older.node.attributes["axis"] = axis;
    return {std::move(older.node)};
  }
  const std::string rows = older.inner("rows");
  const std::string done = older.inner("of_rows");
  Nodes nodes{made(older, "flatten", "Flatten", {older.node.inputs[0]}, {rows}, {{"axis", axis}})};
  Ints back;
  bool symbolic = false;
  for (const int64_t extent : shape) {
    symbolic = symbolic || extent < 0;
    back.push_back(extent < 0 ? -1 : extent);
  }
  GraphNode reshape = made(older, "back", "Reshape", {done}, older.node.outputs, {{"shape", back}});
  older.node.inputs = {rows};
  older.node.outputs = {done};
  older.node.attributes["axis"] = int64_t{1};
  nodes.push_back(std::move(older.node));
  nodes.push_back(std::move(reshape));
  return nodes;
}

Nodes dropout(Older older) {
  older.node.attributes.erase("is_test");
  older.node.attributes.erase("seed");
  return {std::move(older.node)};
}

// Before opset 7 a slope for every channel.
Nodes prelu(Older older) {
  if (older.opset >= 7 || older.node.inputs.size() != 2) return {std::move(older.node)};
  const int trailing = older.shape_of(0).rank() - 2;
  if (older.shape_of(1).rank() != 1 || trailing < 1) return {std::move(older.node)};
  GraphNode padded = padded_behind(older, 1, trailing);
  return {std::move(padded), std::move(older.node)};
}

Nodes cast(Older older) {
  const auto to = older.node.attributes.find("to");
  const auto* name =
      to == older.node.attributes.end() ? nullptr : std::get_if<std::string>(&to->second);
  if (name == nullptr) return {std::move(older.node)};
  static const std::map<std::string, int64_t> kNumbers{
      {"FLOAT", 1}, {"UINT8", 2}, {"INT8", 3},     {"UINT16", 4},  {"INT16", 5},   {"INT32", 6},
      {"INT64", 7}, {"BOOL", 9},  {"FLOAT16", 10}, {"DOUBLE", 11}, {"UINT32", 12}, {"UINT64", 13}};
  const auto number = kNumbers.find(*name);
  if (number == kNumbers.end()) no_meaning(format("its type {} is not known here", *name));
  to->second = number->second;
  return {std::move(older.node)};
}

Nodes concat(Older older) {
  if (older.opset < 4 && !older.has("axis")) older.node.attributes["axis"] = int64_t{1};
  return {std::move(older.node)};
}

// Resize before opset 11, and what was Upsample before 10: corners count, and the lower index.
Nodes resize(Older older) {
  const bool upsample = older.node.op == "Upsample";
  if (!upsample && older.opset >= 11) return {std::move(older.node)};
  older.node.op = "Resize";
  older.node.attributes["coordinate_transformation_mode"] = std::string("asymmetric");
  older.node.attributes["nearest_mode"] = std::string("floor");
  if (older.node.inputs.size() == 2)  // between them, the region of interest
    older.node.inputs.insert(older.node.inputs.begin() + 1, "");
  return {std::move(older.node)};
}

// Before opset 11 its bounds were the last float32 where nothing was said.
Nodes clip(Older older) {
  constexpr double kLast = std::numeric_limits<float>::max();
  if (older.opset < 11) {
    older.node.attributes.try_emplace("min", -kLast);
    older.node.attributes.try_emplace("max", kLast);
  }
  return {std::move(older.node)};
}

// From opset 18 on a number of parts may stand for their sizes.
Nodes split(Older older) {
  if (!older.has("num_outputs")) return {std::move(older.node)};
  const int64_t parts = older.taken_int("num_outputs", 0);
  if (older.node.inputs.size() > 1) return {std::move(older.node)};
  const ops::Shape shape = older.shape_of(0);
  const int64_t given = ops::attribute_int(older.node.attributes, "axis", 0);
  const int64_t axis = given < 0 ? given + shape.rank() : given;
  if (axis < 0 || axis >= shape.rank()) no_meaning("it has no such axis");
  if (parts < 1 || static_cast<size_t>(parts) != older.node.outputs.size())
    no_meaning(format("it has {} outputs, but num_outputs {}", older.node.outputs.size(), parts));
  const int64_t extent = shape[static_cast<int>(axis)];
  if (extent < 0) no_meaning("it divides the batch");
  const int64_t each = (extent + parts - 1) / parts;
  Ints sizes;
  for (int64_t i = 0; i < parts; ++i)
    sizes.push_back(std::clamp<int64_t>(extent - i * each, 0, each));
  older.node.attributes["split"] = std::move(sizes);
  return {std::move(older.node)};
}

Nodes recurrent(Older older) {
  older.node.attributes.erase("output_sequence");  // outputs that are named are given
  return {std::move(older.node)};
}

// What output_padding adds behind the pads, whole strides of it, is what as many zeros behind the
// input make, which is computed here: Pad, then what is left.
Nodes conv_transpose(Older older) {
  const ops::Attributes& attributes = older.node.attributes;
  Ints behind = ops::attribute_ints(attributes, "output_padding", {});
  if (behind.empty()) return {std::move(older.node)};
  const size_t axes = behind.size();
  const Ints strides = ops::attribute_ints(attributes, "strides", Ints(axes, 1));
  const bool padded = !older.has("output_shape") &&
                      ops::attribute_string(attributes, "auto_pad", "NOTSET") == "NOTSET";
  const Ints none(2 * axes, 0);
  const Ints pads = padded ? ops::attribute_ints(attributes, "pads", none) : none;
  const auto rank = static_cast<size_t>(older.shape_of(0).rank());
  if (rank != axes + 2 || strides.size() != axes || pads.size() != 2 * axes)
    return {std::move(older.node)};  // refused where it is bound
  Ints zeros(2 * rank, 0);
  bool any = false;
  for (size_t i = 0; i < axes; ++i) {
    if (strides[i] < 1 || pads[axes + i] < 0 || behind[i] - pads[axes + i] < strides[i]) continue;
    const int64_t steps = (behind[i] - pads[axes + i]) / strides[i];
    zeros[rank + 2 + i] = steps;
    behind[i] -= steps * strides[i];
    any = true;
  }
  if (!any) return {std::move(older.node)};
  const std::string longer = older.inner("longer");
  GraphNode pad = made(older, "pad", "Pad", {older.input(0)}, {longer}, {{"pads", zeros}});
  older.node.inputs[0] = longer;
  older.node.attributes["output_padding"] = std::move(behind);
  return {std::move(pad), std::move(older.node)};
}

Nodes gemm(Older older) {
  if (older.opset < 7) older.node.attributes.erase("broadcast");
  return {std::move(older.node)};
}

const AdaptRows& table() {
  static const AdaptRows rows = [] {
    AdaptRows all{{"Add", of_pair},     {"Sub", of_pair},        {"Mul", of_pair},
                  {"Div", of_pair},     {"Pow", of_pair},        {"And", of_pair},
                  {"Or", of_pair},      {"Xor", of_pair},        {"Equal", of_pair},
                  {"Less", of_pair},    {"Greater", of_pair},    {"Gemm", gemm},
                  {"Softmax", softmax}, {"LogSoftmax", softmax}, {"Hardmax", softmax},
                  {"Dropout", dropout}, {"PRelu", prelu},        {"Split", split},
                  {"Cast", cast},       {"Clip", clip},          {"Concat", concat},
                  {"Upsample", resize}, {"Resize", resize},      {"LSTM", recurrent},
                  {"GRU", recurrent},   {"RNN", recurrent},      {"ConvTranspose", conv_transpose}};
    all.insert(quantized_rows().begin(), quantized_rows().end());
    all.insert(expanded_rows().begin(), expanded_rows().end());
    return all;
  }();
  return rows;
}

}  // namespace

bool is_adapted(const std::string& op) { return table().contains(op); }

Nodes adapted(GraphNode node, int opset, const SpecOfInput& spec_of,
              const std::set<std::string>& taken) {
  node.attributes.erase("consumed_inputs");  // said what may be written over, before opset 6
  const auto row = table().find(node.op);
  if (row == table().end()) return {std::move(node)};
  return row->second({std::move(node), opset, spec_of, taken});
}

}  // namespace kerf::partitioner::onnx
