// Softmax (ONNX, opset 13): Y = exp(X) / sum of exp(X) along one axis (attribute `axis`, default
// the last). Every index along it needs all others; other axes divide at will.
#include "ops/operator.h"

namespace kerf::ops {
namespace {

class Softmax final : public BoundOperator {
 public:
  explicit Softmax(const NodeFacts& facts) : BoundOperator("Softmax", facts) {
    want_float32("Softmax", input(0), "input");
    const int axis =
        resolved_axis("Softmax", attribute_int(facts.attributes, "axis", -1), shape(0).rank());
    if (shape(0)[axis] < 0)
      throw Error(ErrorCode::kUsage, format("Softmax of {} along axis {}, the batch: name another",
                                            to_string(shape(0)), axis));
    outputs_ = {input(0).spec};
    const OperandMap map = same_axes(shape(0).rank());
    space_ = {axes_of_tensor(shape(0)), {map}, {map}};
    space_.axes[static_cast<size_t>(axis)].undivided =
        format("Softmax sums along axis {}, which it needs whole", axis);
  }

  Cost cost(const LocalSpecs& local) const override {
    const double n = static_cast<double>(local.outputs[0].shape.elements());
    return {4 * n, 4 * n, 0, 8 * n, 12 * n, 0};
  }
  BackwardReads backward_reads() const override {
    BackwardReads reads;
    reads.outputs_for_input_gradient = {0};
    return reads;
  }
};

}  // namespace

OperatorDefinitions define_softmax() {
  return {{.name = "Softmax",
           .inputs = {{"input"}},
           .outputs = {{"output"}},
           .attributes = {{"axis"}},
           .bind = bind_as<Softmax>}};
}

}  // namespace kerf::ops
