// LogLoss (Kerf's own): cross-entropy put together from segments of the classes.
//
//   maximum, log_sum [N, S, ...]   picked [N, ...]   loss: a scalar
//
//   loss = sum over rows of log(sum over s of exp(maximum_s + log_sum_s)) - picked, / normaliser
//
// with the first two from SegmentLogSumExp and the last from PickLabel, summed over its slices. The
// largest maximum is subtracted from the label's score before anything small is added, so scores of
// any size cost no accuracy. Iterations: samples, segments (whole), the other axes.
#include "ops/operator.h"

namespace kerf::ops {
namespace {

class LogLoss final : public BoundOperator {
 public:
  explicit LogLoss(const NodeFacts& facts) : BoundOperator("LogLoss", facts) {
    for (const Operand& operand : inputs()) want_float32("LogLoss", operand, "all inputs");
    const Shape& segments = shape(0);
    std::vector<int64_t> extents;
    std::vector<std::vector<int>> axes;
    for (int axis = 0; axis < segments.rank(); ++axis) {
      if (axis == 1) continue;
      extents.push_back(segments[axis]);
      axes.push_back({axis});
    }
    if (segments.rank() < 2 || segments[1] < 1 || !(shape(1) == segments) ||
        !(shape(2) == Shape(extents)))
      throw Error(ErrorCode::kUsage,
                  format("LogLoss wants maximum and log_sum [N, S, ...] and picked [N, ...], not "
                         "{}, {} and {}",
                         to_string(segments), to_string(shape(1)), to_string(shape(2))));
    outputs_ = {{DType::kFloat32, Shape{}}};
    const OperandMap whole = same_axes(segments.rank());
    space_ = {axes_of_tensor(segments), {whole, whole, operand_axes(axes)}, {operand_axes({})}};
    space_.axes[1].kind = AxisKind::kSummed;
    space_.axes[1].name = "segments";
    space_.axes[1].undivided = "a row's denominator needs every segment";
  }

  Cost cost(const LocalSpecs& local) const override {
    const double n = static_cast<double>(local.inputs[0].shape.elements());
    const double rows = static_cast<double>(local.inputs[2].shape.elements());
    return {4 * n, 5 * n, 0, 8 * n + 4 * rows, 16 * n + 4 * rows, 0};
  }
  BackwardReads backward_reads() const override {
    BackwardReads reads;
    reads.inputs_for_input_gradient = {0, 1};
    return reads;
  }
  bool is_loss() const override { return true; }
  Answers answers() const override { return Answers::kPicked; }
};

}  // namespace

OperatorDefinitions define_log_loss() {
  return {{.name = "LogLoss",
           .inputs = {{"maximum"}, {"log_sum"}, {"picked"}},
           .outputs = {{"loss"}},
           .bind = bind_as<LogLoss>}};
}

}  // namespace kerf::ops
