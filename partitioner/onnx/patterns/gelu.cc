// GELU by the error function, as exporters of opsets before 20 write it: x * (1 + Erf(x / sqrt(2)))
// / 2, in any order of the products.
#include <cmath>

#include "partitioner/onnx/fuse.h"

namespace kerf::partitioner::onnx {
namespace {

bool is_near(std::optional<double> number, double wanted) {
  return number && std::abs(*number - wanted) < 1e-4 * wanted;
}

// x of x / sqrt(2), or of x * sqrt(1/2), and the node.
struct Halved {
  ValueId x = -1;
  NodeId node = -1;
};
Halved over_root_two(const Model& model, ValueId value) {
  if (const NodeId div = maker(model, value, "Div"); div >= 0)
    return is_near(one_number(model, model.node(div).inputs[1]), std::sqrt(2.0))
               ? Halved{model.node(div).inputs[0], div}
               : Halved{};
  const NodeId mul = maker(model, value, "Mul");
  if (mul < 0) return {};
  for (const ValueId x : model.node(mul).inputs)
    if (is_near(one_number(model, other_input(model.node(mul), x)), std::sqrt(0.5)))
      return {x, mul};
  return {};
}

// 1 + Erf(x / sqrt(2)), by its nodes.
struct Bell {
  ValueId x = -1;
  std::vector<NodeId> nodes;
};
Bell bell(const Model& model, ValueId value) {
  const NodeId add = maker(model, value, "Add");
  if (add < 0) return {};
  for (const ValueId side : model.node(add).inputs) {
    const NodeId erf = maker(model, side, "Erf");
    if (erf < 0 || !is_near(one_number(model, other_input(model.node(add), side)), 1)) continue;
    const Halved halved = over_root_two(model, model.node(erf).inputs[0]);
    if (halved.node >= 0) return {halved.x, {halved.node, erf, add}};
  }
  return {};
}

std::optional<Fusion> fusion_of(const Model& model, const Bell& found, NodeId inner, NodeId last) {
  // A constant of more axes than x gives all of them to the result.
  if (!(model.value(model.node(last).outputs[0]).spec.shape == model.value(found.x).spec.shape))
    return std::nullopt;
  Fusion fusion{found.nodes, "Gelu", {}, {found.x}, {std::nullopt}};
  fusion.nodes.push_back(inner);
  fusion.nodes.push_back(last);
  return fusion;
}

}  // namespace

std::optional<Fusion> gelu(const Model& model, NodeId last) {
  const Node& node = model.node(last);
  if (node.op != "Mul" || node.inputs.size() != 2) return std::nullopt;
  for (const ValueId side : node.inputs) {
    const ValueId other = other_input(node, side);
    const NodeId inner = maker(model, side, "Mul");
    // (x * bell) * 0.5
    if (inner >= 0 && is_near(one_number(model, other), 0.5))
      for (const ValueId of : model.node(inner).inputs)
        if (const Bell found = bell(model, of);
            found.x >= 0 && other_input(model.node(inner), of) == found.x)
          return fusion_of(model, found, inner, last);
    // (x * 0.5) * bell
    if (const Bell found = bell(model, other); inner >= 0 && found.x >= 0)
      for (const ValueId of : model.node(inner).inputs)
        if (of == found.x && is_near(one_number(model, other_input(model.node(inner), of)), 0.5))
          return fusion_of(model, found, inner, last);
    // x * (bell * 0.5)
    if (inner >= 0)
      for (const ValueId of : model.node(inner).inputs)
        if (const Bell found = bell(model, of);
            found.x == other && found.x >= 0 &&
            is_near(one_number(model, other_input(model.node(inner), of)), 0.5))
          return fusion_of(model, found, inner, last);
  }
  return std::nullopt;
}

}  // namespace kerf::partitioner::onnx
