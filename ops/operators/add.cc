// Add (ONNX, opset 14): Z = A + B, of one shape, or one of them repeated over the other.
//
// Broadcasting is NumPy's, from the last axis backwards, but the output has the shape of one of the
// inputs, and the other may not have the batch (a parameter: [N, F] + [F]). The gradient of a
// repeated input is the sum over its repetitions.
#include <algorithm>

#include "ops/image_format.h"

namespace kerf::ops {
namespace {

// Whether `from` can be repeated over `to`; the batch is never repeated.
bool repeats_over(const Shape& from, const Shape& to) {
  if (from == to) return true;
  if (from.rank() > to.rank()) return false;
  const int shift = to.rank() - from.rank();
  for (int i = 0; i < from.rank(); ++i)
    if (from[i] != 1 && (from[i] != to[i + shift] || to[i + shift] < 0)) return false;
  return true;
}

class Add final : public BoundOperator {
 public:
  explicit Add(const NodeFacts& facts) : BoundOperator("Add", facts) {
    want_float32("Add", input(0), "A");
    want_float32("Add", input(1), "B");
    const bool first = repeats_over(shape(1), shape(0));
    if (!first && !repeats_over(shape(0), shape(1)))
      throw Error(ErrorCode::kUsage,
                  format("Add cannot add {} and {}: one must have the other's shape, or extents of "
                         "1 where it is repeated (and no batch of its own)",
                         to_string(shape(0)), to_string(shape(1))));
    outputs_ = {input(first ? 0 : 1).spec};
    const Shape& output = outputs_[0].shape;
    space_ = {axes_of_image(image_format(facts.attributes), output),
              {broadcast_axes(shape(0), output), broadcast_axes(shape(1), output)},
              {same_axes(output.rank())}};
  }

  Cost cost(const LocalSpecs& local) const override {
    const double n = static_cast<double>(local.outputs[0].shape.elements());
    const double a = static_cast<double>(local.inputs[0].shape.elements());
    const double b = static_cast<double>(local.inputs[1].shape.elements());
    const double sums = shape(0) == shape(1) ? 0 : n;  // of the repeated input
    return {n, 0, sums, 4 * (n + a + b), 4 * (n + std::max(a, b)), 4 * (sums + std::min(a, b))};
  }
  BackwardReads backward_reads() const override { return {}; }
  bool may_overwrite(int index) const override { return shape(index) == outputs_[0].shape; }
};

// Only of two images: what is repeated is aligned by its last axes.
std::optional<ChannelsLast> add_channels_last(const NodeFacts& facts) {
  if (!(facts.inputs[0].spec.shape == facts.inputs[1].spec.shape)) return std::nullopt;
  auto node = image_channels_last(facts);
  if (node) node->images = {0, 1};
  return node;
}

}  // namespace

OperatorDefinitions define_add() {
  return {{.name = "Add",
           .inputs = {{"A"}, {"B"}},
           .outputs = {{"C"}},
           .attributes = {format_attribute()},
           .bind = bind_as<Add>,
           .channels_last = add_channels_last,
           .first_opset = 7}};  // before it, `broadcast` was an attribute
}

}  // namespace kerf::ops
