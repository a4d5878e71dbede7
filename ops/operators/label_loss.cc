#include "ops/operators/label_loss.h"

#include "ops/samples_axis.h"

namespace kerf::ops {
namespace {

LossReduction reduction_of(const char* op, const Attributes& attributes) {
  const std::string text = attribute_string(attributes, "reduction", "mean");
  if (text == "mean") return LossReduction::kMean;
  if (text == "sum") return LossReduction::kSum;
  if (text == "none") return LossReduction::kNone;
  throw Error(ErrorCode::kUsage,
              format("{} with reduction '{}': it is none, mean or sum", op, text));
}

}  // namespace

LabelLoss::LabelLoss(const NodeFacts& facts, const char* name, bool of_scores)
    : BoundOperator(name, facts),
      of_scores_(of_scores),
      reduction_(reduction_of(name, facts.attributes)) {
  if (facts.attributes.contains("ignore_index"))
    ignored_ = attribute_int(facts.attributes, "ignore_index", 0);
  const DType labels_type = input(1).spec.dtype;
  if (input(0).spec.dtype != DType::kFloat32 ||
      (labels_type != DType::kInt64 && labels_type != DType::kInt32))
    throw Error(ErrorCode::kUsage,
                format("{} wants float32 scores and int64 or int32 labels, not {} and {}", name,
                       to_string(input(0).spec.dtype), to_string(labels_type)));
  check_shapes();
  const Shape& scores = shape(0);
  outputs_ = {{DType::kFloat32, reduction_ == LossReduction::kNone ? shape(1) : Shape{}}};
  if (facts.outputs > 1) outputs_.push_back(input(0).spec);
  space_.axes = {samples_axis(scores[0]),
                 {is_plain() ? AxisKind::kSummed : AxisKind::kOther, "classes", scores[1], 1, false,
                  "a row's denominator needs the scores of every class"}};
  std::vector<std::vector<int>> labels{{0}};
  for (int axis = 2; axis < scores.rank(); ++axis) {
    space_.axes.push_back({AxisKind::kSpace, format("axis {}", axis), scores[axis]});
    labels.push_back({axis});
  }
  if (divides_by_weights())
    for (IterationAxis& axis : space_.axes)
      axis.undivided = "its mean divides by what all labels weigh";
  space_.inputs = {same_axes(scores.rank()), operand_axes(labels)};
  if (inputs().size() > 2) space_.inputs.push_back(has(2) ? operand_axes({{1}}) : OperandMap{});
  space_.outputs = {reduction_ == LossReduction::kNone ? operand_axes(labels) : operand_axes({})};
  if (facts.outputs > 1) space_.outputs.push_back(same_axes(scores.rank()));
}

void LabelLoss::check_shapes() const {
  const Shape& scores = shape(0);
  const Shape& labels = shape(1);
  bool fits = scores.rank() >= 2 && labels.rank() == scores.rank() - 1 && scores[1] >= 1;
  for (int axis = 0; fits && axis < labels.rank(); ++axis)
    fits = labels[axis] == scores[axis == 0 ? 0 : axis + 1];
  if (!fits)
    throw Error(ErrorCode::kUsage,
                format("{} wants scores [N, C, ...] and labels [N, ...], not {} and {}", name(),
                       to_string(scores), to_string(labels)));
  if (!has(2)) return;
  want_float32(name(), input(2), "weights");
  if (!(shape(2) == Shape{scores[1]}))
    throw Error(ErrorCode::kUsage, format("{} wants a weight for each of {} classes, not {}",
                                          name(), scores[1], to_string(shape(2))));
  if (input(2).wants_gradient)
    throw Error(ErrorCode::kUsage,
                format("{} has no gradient of its weights: they are constant", name()));
}

bool LabelLoss::is_plain() const {
  return reduction_ == LossReduction::kMean && !weighted() && !ignored_ && of_scores_ &&
         outputs_.size() == 1 && input(1).spec.dtype == DType::kInt64;
}

Cost LabelLoss::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.inputs[0].shape.elements());
  const double rows = static_cast<double>(local.inputs[1].shape.elements());
  const double answers = reduction_ == LossReduction::kNone ? 4 * rows : 0;
  if (!of_scores_) return {rows, rows, 0, 16 * rows + answers, 4 * n + 12 * rows + answers, 0};
  const double shares = outputs_.size() > 1 ? 4 * n : 0;
  return {
      4 * n, 3 * n, 0, 4 * n + 12 * rows + answers + shares, 8 * n + 12 * rows + answers + shares,
      0};
}

BackwardReads LabelLoss::backward_reads() const {
  BackwardReads reads;
  reads.inputs_for_input_gradient = {1};
  if (of_scores_) reads.inputs_for_input_gradient = {0, 1};
  if (weighted()) reads.inputs_for_input_gradient.push_back(2);
  return reads;
}

size_t LabelLoss::reserve_bytes(const LocalSpecs& local) const {
  const auto rows = of_scores_ ? static_cast<size_t>(local.inputs[1].shape.elements()) : 0;
  return (rows + (divides_by_weights() ? 1 : 0)) * sizeof(double);
}

bool LabelLoss::is_loss() const {
  return reduction_ != LossReduction::kNone && !divides_by_weights();
}

Answers LabelLoss::answers() const {
  const bool plain_labels = input(1).spec.dtype == DType::kInt64 && !ignored_;
  return is_loss() && plain_labels ? Answers::kLargestScore : Answers::kNone;
}

OperatorDefinitions define_label_loss() {
  const auto defined = [](const char* name, bool of_scores) {
    OperatorDefinition definition{
        .name = name,
        .inputs = {{"scores"}, {"labels"}, {"weights", FormalOperand::Count::kOptional}},
        .outputs = {{"output"}},
        .attributes = {{"reduction", AttributeType::kString}, {"ignore_index"}}};
    if (of_scores) definition.outputs.push_back({"log_prob", FormalOperand::Count::kOptional});
    definition.bind = [=](const NodeFacts& facts) {
      return std::make_unique<LabelLoss>(facts, name, of_scores);
    };
    definition.first_opset = 12;
    return definition;
  };
  return {defined("SoftmaxCrossEntropyLoss", true), defined("NegativeLogLikelihoodLoss", false)};
}

}  // namespace kerf::ops
