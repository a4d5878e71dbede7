#include "partitioner/onnx/export_forms.h"

#include <array>

#include "partitioner/onnx/export_literals.h"
#include "runtime/format.h"

namespace kerf::partitioner::onnx {
namespace {

using Ints = std::vector<int64_t>;

void add_transpose(const std::string& node, const std::string& of, const std::string& to,
                   const Ints& perm, ExportMessage& message) {
  put_attribute("perm", perm,
                message.add_node("Transpose", format("{}.transpose_{}", node, to), {of}, to));
}

}  // namespace

bool has_samples_first(const Node& node) {
  return (node.op == "LSTM" || node.op == "GRU" || node.op == "RNN") &&
         ops::attribute_int(node.attributes, "layout", 0) != 0;
}

void add_steps_first(::onnx::NodeProto made, ExportMessage& message) {
  constexpr std::array kTurned{0, 5, 6};  // X, initial_h, initial_c
  for (const int input : kTurned) {
    if (input >= made.input_size() || made.input(input).empty()) continue;
    const std::string turned = message.fresh(format("{}.steps_first{}", made.name(), input));
    add_transpose(made.name(), made.input(input), turned, {1, 0, 2}, message);
    made.set_input(input, turned);
  }
  const std::vector<std::string> outputs(made.output().begin(), made.output().end());
  for (int i = 0; i < made.output_size(); ++i)
    made.set_output(i, message.fresh(format("{}.of_steps{}", made.name(), i)));
  message.add_node(made);
  for (int i = 0; i < made.output_size(); ++i)
    add_transpose(made.name(), made.output(i), outputs[static_cast<size_t>(i)],
                  i == 0 ? Ints{2, 0, 1, 3} : Ints{1, 0, 2}, message);
}

void repeat_mask(const Model& model, const Node& node, ::onnx::NodeProto& made,
                 ExportMessage& message) {
  if (node.inputs.size() < 4 || node.inputs[3] < 0) return;
  const auto shape_of = [&](size_t input) { return model.value(node.inputs[input]).spec.shape; };
  const ops::Shape q = shape_of(0);
  const ops::Shape k = shape_of(1);
  const ops::Shape mask = shape_of(3);
  const Ints pairs{q[q.rank() - 2], k[k.rank() - 2]};
  const int last = mask.rank() - 1;
  if (last > 0 && mask[last - 1] == pairs[0] && mask[last] == pairs[1]) return;
  const std::string all =
      message.add_constant(node.name + ".pairs", {ops::DType::kInt64, {2}, bytes_of_values(pairs)});
  const std::string repeated = message.fresh(node.name + ".mask");
  message.add_node("Expand", node.name + ".mask", {made.input(3), all}, repeated);
  made.set_input(3, repeated);
}

std::string add_batched_shape(const std::string& node, const std::vector<int64_t>& shape,
                              ExportMessage& message) {
  const std::string batch = message.add_batch(node + ".batch");
  std::vector<std::string> extents;
  for (size_t i = 0; i < shape.size(); ++i)
    extents.push_back(shape[i] < 0 ? batch
                                   : message.add_constant(
                                         format("{}.shape{}", node, i),
                                         {ops::DType::kInt64, {1}, bytes_of_values({shape[i]})}));
  std::string all = message.fresh(node + ".shape");
  put_attribute("axis", int64_t{0}, message.add_node("Concat", node + ".shape", extents, all));
  return all;
}

}  // namespace kerf::partitioner::onnx
