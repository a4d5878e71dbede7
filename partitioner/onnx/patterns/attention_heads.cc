// Attention whose heads were put apart and together again: what gives Q, K and V is read as it is,
// a position's heads side by side, and so is what it gives.
//
//   Transpose(Reshape(q, [N, T, H, d]), [0, 2, 1, 3])    Attention
//   Reshape(Transpose(y, [0, 2, 1, 3]), [N, T, H * e])
#include "partitioner/onnx/fuse.h"

namespace kerf::partitioner::onnx {
namespace {

constexpr int kOperands = 3;  // Q, K, V

bool swaps_heads(const Node& transpose) {
  return ops::attribute_ints(transpose.attributes, "perm", {}) == std::vector<int64_t>{0, 2, 1, 3};
}

// [N, T, H, d] with the heads side by side.
ops::Shape joined(const ops::Shape& heads) { return {heads[0], heads[1], heads[2] * heads[3]}; }

// What operand `input` is read of instead.
bool join_heads(const Model& model, size_t input, Fusion& fusion) {
  const NodeId transpose = only_maker(model, fusion.inputs[input], "Transpose");
  if (transpose < 0 || !swaps_heads(model.node(transpose))) return false;
  ValueId from = model.node(transpose).inputs[0];
  const ops::Shape wanted = joined(model.value(from).spec.shape);
  fusion.nodes.push_back(transpose);
  if (const NodeId reshape = only_maker(model, from, "Reshape"); reshape >= 0) {
    fusion.nodes.push_back(reshape);
    from = model.node(reshape).inputs[0];
  }
  fusion.inputs[input] = from;
  if (!(model.value(from).spec.shape == wanted))
    fusion.before[input] = {{"Reshape", {{"shape", reshaped_to(wanted)}}}};
  return true;
}

}  // namespace

std::optional<Fusion> attention_heads(const Model& model, NodeId last) {
  const Node& behind = model.node(last);
  if (behind.op != "Reshape" && behind.op != "Flatten") return std::nullopt;
  const NodeId transpose = only_maker(model, behind.inputs[0], "Transpose");
  if (transpose < 0 || !swaps_heads(model.node(transpose))) return std::nullopt;
  const ValueId heads = model.node(transpose).inputs[0];
  const NodeId found = only_maker(model, heads, "Attention");
  if (found < 0) return std::nullopt;
  const Node& attention = model.node(found);
  const ops::Shape& q = model.value(attention.inputs[0]).spec.shape;
  const ops::Shape& k = model.value(attention.inputs[1]).spec.shape;
  if (q.rank() != 4) return std::nullopt;
  Fusion fusion{{}, attention.op, attention.attributes, attention.inputs};
  fusion.attributes["q_num_heads"] = q[1];
  fusion.attributes["kv_num_heads"] = k[1];
  for (size_t input = 0; input < kOperands; ++input)
    if (!join_heads(model, input, fusion)) return std::nullopt;
  fusion.nodes.insert(fusion.nodes.end(), {found, transpose, last});
  const ops::Shape& y = model.value(behind.outputs[0]).spec.shape;
  if (!(y == joined(model.value(behind.inputs[0]).spec.shape)))
    fusion.after = {{"Reshape", {{"shape", reshaped_to(y)}}}};
  return fusion;
}

}  // namespace kerf::partitioner::onnx
