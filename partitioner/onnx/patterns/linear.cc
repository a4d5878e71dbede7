// A linear layer as exporters write it: MatMul with a weight, then Add of a bias, is a Gemm of all
// rows, which adds the bias where it has the product.
#include "partitioner/onnx/fuse.h"

namespace kerf::partitioner::onnx {
namespace {

bool is_weight_matrix(const Value& value) {
  return ops::is_kept(value.role) && value.spec.dtype == ops::DType::kFloat32 &&
         value.spec.shape.rank() == 2;
}

// A number for each of so many outputs: [O], or [1, O].
bool is_bias_of(const Value& value, int64_t outputs) {
  const ops::Shape& shape = value.spec.shape;
  return ops::is_kept(value.role) && value.spec.dtype == ops::DType::kFloat32 &&
         shape.rank() >= 1 && shape.rank() <= 2 && shape[shape.rank() - 1] == outputs &&
         (shape.rank() == 1 || shape[0] == 1);
}

}  // namespace

std::optional<Fusion> linear(const Model& model, NodeId last) {
  const Node& add = model.node(last);
  if (add.op != "Add" || add.inputs.size() != 2) return std::nullopt;
  for (const ValueId sum : add.inputs) {
    const NodeId product = maker(model, sum, "MatMul");
    const ValueId bias = other_input(add, sum);
    if (product < 0 || bias == sum) continue;
    const ValueId x = model.node(product).inputs[0];
    const ValueId weight = model.node(product).inputs[1];
    const ops::Shape& rows = model.value(x).spec.shape;
    const ops::Shape& y = model.value(sum).spec.shape;
    if (ops::is_kept(model.value(x).role) || !is_weight_matrix(model.value(weight)) ||
        rows.rank() < 2 || rows[0] >= 0 || !is_bias_of(model.value(bias), y[y.rank() - 1]) ||
        !(model.value(add.outputs[0]).spec.shape == y))
      continue;
    Fusion fusion{{product, last}, "Gemm", {}, {x, weight, bias}};
    if (rows.rank() > 2) {
      const std::vector<int64_t> matrix{-1, rows[rows.rank() - 1]};
      fusion.before[0] = {{"Reshape", {{"shape", matrix}}}};
      fusion.after = {{"Reshape", {{"shape", reshaped_to(y)}}}};
    }
    return fusion;
  }
  return std::nullopt;
}

}  // namespace kerf::partitioner::onnx
