// LayerNormalization as exporters of opsets before 17 write it:
//
//   mean = ReduceMean(x); d = Sub(x, mean); v = ReduceMean(Pow(d, 2) or Mul(d, d))
//   Add(Mul(Div(d, Sqrt(Add(v, epsilon))), scale), shift)
#include <algorithm>

#include "partitioner/onnx/fuse.h"

namespace kerf::partitioner::onnx {
namespace {

// Whether it is the mean over the last axes, from `axis` on, of what has `rank` axes.
std::optional<int64_t> mean_from(const Model& model, NodeId mean, int rank) {
  const Node& node = model.node(mean);
  if (ops::attribute_int(node.attributes, "keepdims", 1) == 0) return std::nullopt;
  std::vector<int64_t> axes = ops::attribute_ints(node.attributes, "axes", {});
  if (axes.empty()) return std::nullopt;
  for (int64_t& axis : axes) axis = axis < 0 ? axis + rank : axis;
  std::sort(axes.begin(), axes.end());
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != rank - static_cast<int64_t>(axes.size() - i)) return std::nullopt;
  return axes[0];
}

// d of what squares it.
ValueId squared(const Model& model, ValueId square) {
  if (const NodeId pow = maker(model, square, "Pow"); pow >= 0)
    return one_number(model, model.node(pow).inputs[1]) == 2.0 ? model.node(pow).inputs[0] : -1;
  const NodeId mul = maker(model, square, "Mul");
  if (mul < 0 || model.node(mul).inputs[0] != model.node(mul).inputs[1]) return -1;
  return model.node(mul).inputs[0];
}

bool has_shape_from(const Model& model, ValueId value, const ops::Shape& x, int64_t axis) {
  const ops::Shape& shape = model.value(value).spec.shape;
  return ops::is_kept(model.value(value).role) && shape.rank() == x.rank() - axis &&
         std::equal(shape.begin(), shape.end(), x.begin() + axis);
}

}  // namespace

std::optional<Fusion> layer_normalization(const Model& model, NodeId last) {
  const Node& add = model.node(last);
  if (add.op != "Add") return std::nullopt;
  for (const ValueId scaled : add.inputs) {
    const NodeId mul = maker(model, scaled, "Mul");
    if (mul < 0) continue;
    for (const ValueId ratio : model.node(mul).inputs) {
      const NodeId div = maker(model, ratio, "Div");
      const NodeId sub = div < 0 ? -1 : maker(model, model.node(div).inputs[0], "Sub");
      const NodeId root = div < 0 ? -1 : maker(model, model.node(div).inputs[1], "Sqrt");
      const NodeId sum = root < 0 ? -1 : maker(model, model.node(root).inputs[0], "Add");
      if (sub < 0 || sum < 0) continue;
      const ValueId d = model.node(div).inputs[0];
      const ValueId x = model.node(sub).inputs[0];
      const NodeId mean = maker(model, model.node(sub).inputs[1], "ReduceMean");
      if (mean < 0 || model.node(mean).inputs[0] != x) continue;
      for (const ValueId variance : model.node(sum).inputs) {
        const NodeId of_squares = maker(model, variance, "ReduceMean");
        const auto epsilon = one_number(model, other_input(model.node(sum), variance));
        if (of_squares < 0 || !epsilon) continue;
        const ValueId square = model.node(of_squares).inputs[0];
        if (squared(model, square) != d) continue;
        const ops::Shape& shape = model.value(x).spec.shape;
        if (!(model.value(add.outputs[0]).spec.shape == shape)) continue;
        const auto axis = mean_from(model, mean, shape.rank());
        if (!axis || mean_from(model, of_squares, shape.rank()) != axis) continue;
        const ValueId scale = other_input(model.node(mul), ratio);
        const ValueId shift = other_input(add, scaled);
        if (!has_shape_from(model, scale, shape, *axis) ||
            !has_shape_from(model, shift, shape, *axis))
          continue;
        Fusion fusion{
            {mean, sub, model.value(square).producer, of_squares, sum, root, div, mul, last},
            "LayerNormalization",
            {{"axis", *axis - shape.rank()}, {"epsilon", *epsilon}},
            {x, scale, shift},
            {}};
        fusion.made.resize(3);
        return fusion;
      }
    }
  }
  return std::nullopt;
}

}  // namespace kerf::partitioner::onnx
