// SoftmaxCrossEntropyLoss (ONNX, opset 13): the mean over labels of -log softmax(scores)[label].
//
//   scores [N, C] or [N, C, ...]   labels [N] or [N, ...] int64   loss: a scalar
//
// A call gives the sum over its rows divided by one normaliser, the labels of the whole step, so
// that micro-batches and shares of rows weigh what they should. Iterations: samples, classes
// (whole: a row's denominator needs all), positions.
#include "ops/operator.h"

namespace kerf::ops {
namespace {

class SoftmaxCrossEntropyLoss final : public BoundOperator {
 public:
  explicit SoftmaxCrossEntropyLoss(const NodeFacts& facts)
      : BoundOperator("SoftmaxCrossEntropyLoss", facts) {
    const auto reduction = attribute_string(facts.attributes, "reduction", "mean");
    if (reduction != "mean")
      throw Error(ErrorCode::kUsage,
                  format("SoftmaxCrossEntropyLoss with reduction '{}': only 'mean' is supported",
                         reduction));
    if (input(0).spec.dtype != DType::kFloat32 || input(1).spec.dtype != DType::kInt64)
      throw Error(
          ErrorCode::kUsage,
          format("SoftmaxCrossEntropyLoss wants float32 scores and int64 labels, not {} and {}",
                 to_string(input(0).spec.dtype), to_string(input(1).spec.dtype)));
    check_shapes();
    outputs_ = {{DType::kFloat32, Shape{}}};
    const Shape& scores = shape(0);
    space_.axes = {{AxisKind::kSample, "samples", scores[0]},
                   {AxisKind::kSummed, "classes", scores[1], 1, false,
                    "a row's denominator needs the scores of every class"}};
    std::vector<std::vector<int>> labels{{0}};
    for (int axis = 2; axis < scores.rank(); ++axis) {
      space_.axes.push_back({AxisKind::kSpace, format("axis {}", axis), scores[axis]});
      labels.push_back({axis});
    }
    space_.inputs = {same_axes(scores.rank()), operand_axes(labels)};
    space_.outputs = {operand_axes({})};
  }

  Cost cost(const LocalSpecs& local) const override {
    const double n = static_cast<double>(local.inputs[0].shape.elements());
    const double rows = static_cast<double>(local.inputs[1].shape.elements());
    return {4 * n, 3 * n, 0, 4 * n + 12 * rows, 8 * n + 12 * rows, 0};
  }
  BackwardReads backward_reads() const override {
    BackwardReads reads;
    reads.inputs_for_input_gradient = {0, 1};
    return reads;
  }
  // Per row the logarithm of the sum of exponentials, in double: the gradient's denominators.
  size_t reserve_bytes(const LocalSpecs& local) const override {
    return static_cast<size_t>(local.inputs[1].shape.elements()) * sizeof(double);
  }
  bool is_loss() const override { return true; }
  Answers answers() const override { return Answers::kLargestScore; }

 private:
  void check_shapes() const {
    const Shape& scores = shape(0);
    const Shape& labels = shape(1);
    bool fits = scores.rank() >= 2 && labels.rank() == scores.rank() - 1 && scores[1] >= 1;
    for (int axis = 0; fits && axis < labels.rank(); ++axis)
      fits = labels[axis] == scores[axis == 0 ? 0 : axis + 1];
    if (!fits)
      throw Error(
          ErrorCode::kUsage,
          format("SoftmaxCrossEntropyLoss wants scores [N, C, ...] and labels [N, ...], not {} and "
                 "{}",
                 to_string(scores), to_string(labels)));
  }
};

}  // namespace

OperatorDefinitions define_softmax_cross_entropy() {
  return {{.name = "SoftmaxCrossEntropyLoss",
           .inputs = {{"scores"}, {"labels"}},
           .outputs = {{"output"}},
           .attributes = {{"reduction", AttributeType::kString}},
           .bind = bind_as<SoftmaxCrossEntropyLoss>,
           .first_opset = 12}};
}

}  // namespace kerf::ops
