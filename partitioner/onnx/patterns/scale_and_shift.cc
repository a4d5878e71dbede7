// BatchNormalization of a model for answers, then Mul and Add by numbers of channels: y * s + t is
// a batch normalisation with scale * s and shift * s + t.
#include "partitioner/onnx/fuse.h"

namespace kerf::partitioner::onnx {
namespace {

// A number for each channel, [C, 1, 1] or so; nothing for other shapes.
std::optional<std::vector<float>> per_channel(const Model& model, ValueId value, int64_t channels,
                                              int rank) {
  const Value& of = model.value(value);
  const ops::Shape& shape = of.spec.shape;
  if (shape.rank() > rank) return std::nullopt;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int in_image = axis + rank - shape.rank();
    if (shape[axis] != (in_image == 1 ? channels : 1)) return std::nullopt;
  }
  if (shape.rank() < rank - 1) return std::nullopt;
  return numbers_in(of);
}

std::string bytes_of_floats(const std::vector<float>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
}

// The constant input of a Mul or Add, and the other.
struct Operands {
  ValueId computed = -1;
  ValueId constant = -1;
};
std::optional<Operands> operands_of(const Model& model, const Node& node) {
  if (node.inputs.size() != 2) return std::nullopt;
  const bool second = ops::is_kept(model.value(node.inputs[1]).role);
  const Operands found{node.inputs[second ? 0 : 1], node.inputs[second ? 1 : 0]};
  if (!ops::is_kept(model.value(found.constant).role)) return std::nullopt;
  return found;
}

}  // namespace

std::optional<Fusion> scale_and_shift(const Model& model, NodeId last) {
  const Node& add = model.node(last);
  if (add.op != "Add") return std::nullopt;
  const auto shift = operands_of(model, add);
  const NodeId mul = shift ? maker(model, shift->computed, "Mul") : -1;
  if (mul < 0) return std::nullopt;
  const auto scale = operands_of(model, model.node(mul));
  const NodeId norm = scale ? maker(model, scale->computed, "BatchNormalization") : -1;
  if (norm < 0) return std::nullopt;
  const Node& bn = model.node(norm);
  if (ops::attribute_int(bn.attributes, "training_mode", 0) != 0) return std::nullopt;
  // Shared with another, they stay what that reads.
  for (const size_t input : {1, 2})
    if (model.uses(bn.inputs[input]).size() != 1) return std::nullopt;
  const ops::Shape& image = model.value(bn.inputs[0]).spec.shape;
  const auto s = per_channel(model, scale->constant, image[1], image.rank());
  const auto t = per_channel(model, shift->constant, image[1], image.rank());
  auto gamma = numbers_in(model.value(bn.inputs[1]));
  auto beta = numbers_in(model.value(bn.inputs[2]));
  if (!s || !t || !gamma || !beta) return std::nullopt;
  for (size_t c = 0; c < gamma->size(); ++c) {
    (*gamma)[c] *= (*s)[c];
    (*beta)[c] = (*beta)[c] * (*s)[c] + (*t)[c];
  }
  Fusion fusion{{norm, mul, last}, bn.op, bn.attributes, bn.inputs, {}};
  fusion.made.resize(bn.inputs.size());
  const auto make = [&](size_t input, const std::vector<float>& numbers) {
    const Value& value = model.value(bn.inputs[input]);
    fusion.made[input] = Fusion::Made{value.name, value.spec,
                                      value.role == Role::kConstant ? Role::kFrozen : value.role,
                                      bytes_of_floats(numbers)};
  };
  make(1, *gamma);
  make(2, *beta);
  return fusion;
}

}  // namespace kerf::partitioner::onnx
