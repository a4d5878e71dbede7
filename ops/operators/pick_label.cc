// PickLabel (Kerf's own): each row's score of its label.
//
//   scores [N, C, ...]   labels [N, ...] int64   picked [N, ...]
//
// Iterations: samples, classes, the other axes. The output lacks the classes: a call that holds
// some of them gives 0 where the label is another, and the sum over the slices is the label's
// score. The call that holds class 0 checks the labels.
#include "ops/operator.h"

namespace kerf::ops {
namespace {

class PickLabel final : public BoundOperator {
 public:
  explicit PickLabel(const NodeFacts& facts) : BoundOperator("PickLabel", facts) {
    want_float32("PickLabel", input(0), "scores");
    if (input(1).spec.dtype != DType::kInt64)
      throw Error(ErrorCode::kUsage, format("PickLabel wants int64 for labels, not {}",
                                            to_string(input(1).spec.dtype)));
    const Shape& scores = shape(0);
    std::vector<int64_t> extents;
    std::vector<std::vector<int>> axes;
    for (int axis = 0; axis < scores.rank(); ++axis) {
      if (axis == 1) continue;
      extents.push_back(scores[axis]);
      axes.push_back({axis});
    }
    if (scores.rank() < 2 || scores[1] < 1 || !(shape(1) == Shape(extents)))
      throw Error(ErrorCode::kUsage,
                  format("PickLabel wants scores [N, C, ...] and labels [N, ...], not {} and {}",
                         to_string(scores), to_string(shape(1))));
    outputs_ = {{DType::kFloat32, shape(1)}};
    space_ = {axes_of_tensor(scores),
              {same_axes(scores.rank()), operand_axes(axes)},
              {operand_axes(axes)}};
    space_.axes[1].kind = AxisKind::kSummed;
    space_.axes[1].name = "classes";
  }

  Cost cost(const LocalSpecs& local) const override {
    const double n = static_cast<double>(local.inputs[0].shape.elements());
    const double rows = static_cast<double>(local.outputs[0].shape.elements());
    return {rows, rows, 0, 16 * rows, 4 * n + 12 * rows, 0};
  }
  BackwardReads backward_reads() const override {
    BackwardReads reads;
    reads.inputs_for_input_gradient = {1};
    return reads;
  }
};

}  // namespace

OperatorDefinitions define_pick_label() {
  return {{.name = "PickLabel",
           .inputs = {{"scores"}, {"labels"}},
           .outputs = {{"picked"}},
           .bind = bind_as<PickLabel>}};
}

}  // namespace kerf::ops
