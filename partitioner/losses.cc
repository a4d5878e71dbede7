#include "partitioner/losses.h"

#include <algorithm>
#include <array>

#include "runtime/error.h"

namespace kerf::partitioner {

namespace {

constexpr std::array<std::string_view, 5> kLossNames{kCrossEntropy, "mse", "l1", "huber",
                                                     kBinaryCrossEntropy};

std::string bytes_of_number(float number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

// A file may have what it likes by any name.
std::string unused(const Model& model, const std::string& wanted) {
  const auto is_used = [&](const std::string& name) {
    return model.find_node(name) >= 0 || model.find_value(name) >= 0 ||
           model.find_value(name + ".output") >= 0;
  };
  std::string name = wanted;
  for (int count = 2; is_used(name); ++count) name = format("{}_{}", wanted, count);
  return name;
}

ValueId add_labels(Model& model, const ops::ValueSpec& spec) {
  return model.add_label(unused(model, kLabels), spec);
}

// Adds the nodes of one loss, which are called "loss.STEP".
class LossOfTargets {
 public:
  LossOfTargets(Model& model, ValueId scores)
      : model_(model), scores_(scores), targets_(add_labels(model, model.value(scores).spec)) {}

  void add(const std::string& name) {
    const ValueId each = name == "mse"     ? squared()
                         : name == "l1"    ? distance()
                         : name == "huber" ? bent()
                                           : entropy();
    std::vector<ValueId> inputs{each};
    const int64_t count = model_.value(scores_).spec.shape.elements_per_sample();
    if (count > 1) inputs.push_back(number("share", 1.0F / static_cast<float>(count)));
    model_.add_node(unused(model_, "loss"), "SumLoss", {}, inputs);
  }

 private:
  ValueId node(const std::string& step, const std::string& op, const std::vector<ValueId>& inputs,
               const ops::Attributes& attributes = {}) {
    const std::string name = unused(model_, "loss." + step);
    return model_.node(model_.add_node(name, op, attributes, inputs)).outputs[0];
  }
  ValueId number(const std::string& step, float value) {
    return model_.add_constant(unused(model_, "loss." + step),
                               {ops::DType::kFloat32, {1}, bytes_of_number(value)});
  }

  ValueId difference() { return node("difference", "Sub", {scores_, targets_}); }
  ValueId squared() {
    const ValueId d = difference();
    return node("square", "Mul", {d, d});
  }
  ValueId distance() { return node("distance", "Abs", {difference()}); }
  // c (|d| - c / 2) with c = min(|d|, 1).
  ValueId bent() {
    const ValueId d = distance();
    const ValueId c = node("near", "Clip", {d}, {{"min", 0.0}, {"max", 1.0}});
    const ValueId half = node("half", "Mul", {c, number("factor", 0.5F)});
    return node("bent", "Mul", {c, node("rest", "Sub", {d, half})});
  }
  ValueId entropy() {
    const ValueId all = node("softplus", "Softplus", {scores_});
    return node("entropy", "Sub", {all, node("product", "Mul", {scores_, targets_})});
  }

  Model& model_;
  ValueId scores_;
  ValueId targets_;
};

void add_cross_entropy(Model& model, ValueId scores, const std::string& where) {
  const ops::Shape shape = model.value(scores).spec.shape;
  if (shape.rank() < 2 || shape[0] != ops::kBatch)
    throw Error(ErrorCode::kUsage,
                format("it has the shape {}, but scores are [N, classes], with positions or "
                       "without",
                       ops::to_string(shape)),
                where);
  std::vector<int64_t> label{shape[0]};
  if (shape.rank() == 3) {
    const NodeId turned = model.add_node(unused(model, "scores.classes_first"), "Transpose",
                                         {{"perm", std::vector<int64_t>{0, 2, 1}}}, {scores});
    scores = model.node(turned).outputs[0];
    label.push_back(shape[1]);
  }
  for (int axis = 2; shape.rank() > 3 && axis < shape.rank(); ++axis) label.push_back(shape[axis]);
  const ValueId labels = add_labels(model, {ops::DType::kInt64, ops::Shape(label)});
  model.add_node(unused(model, "loss"), "SoftmaxCrossEntropyLoss", {}, {scores, labels});
}

}  // namespace

std::span<const std::string_view> loss_names() { return kLossNames; }

void add_loss(Model& model, const std::string& name, ValueId scores, const std::string& where) {
  if (std::find(kLossNames.begin(), kLossNames.end(), name) == kLossNames.end())
    throw Error(ErrorCode::kUsage,
                format("there is no loss \"{}\"; there are {}", name, fmt::join(kLossNames, ", ")),
                "--loss");
  if (name == kCrossEntropy) return add_cross_entropy(model, scores, where);
  const ops::ValueSpec& spec = model.value(scores).spec;
  if (spec.dtype != ops::DType::kFloat32 || spec.shape.rank() < 1 || spec.shape[0] != ops::kBatch)
    throw Error(ErrorCode::kUsage,
                format("it is {} {}, but {} is of float32 scores, a row for each sample",
                       ops::to_string(spec.dtype), ops::to_string(spec.shape), name),
                where);
  LossOfTargets(model, scores).add(name);
}

Model with_loss(const Model& model, const std::string& name) {
  if (name == kCrossEntropy) return model;
  KERF_CHECK(model.loss() >= 0, "{} has no loss of its own", model.name());
  Model made(model.name());
  std::vector<ValueId> known(static_cast<size_t>(model.values()), -1);
  for (ValueId id = 0; id < model.values(); ++id) {
    const Value& value = model.value(id);
    if (value.producer == model.loss() || value.role == Role::kLabel) continue;
    if (value.producer < 0) {
      known[static_cast<size_t>(id)] = made.add_copy(value);
    } else if (value.output == 0) {
      const Node& node = model.node(value.producer);
      std::vector<ValueId> inputs;
      for (const ValueId input : node.inputs)
        inputs.push_back(input < 0 ? -1 : known[static_cast<size_t>(input)]);
      const NodeId copy = made.add_node(node.name, node.op, node.attributes, inputs,
                                        static_cast<int>(node.outputs.size()));
      made.set_key(copy, node.key);
      for (size_t i = 0; i < node.outputs.size(); ++i)
        known[static_cast<size_t>(node.outputs[i])] = made.node(copy).outputs[i];
    }
  }
  const ValueId scores = known[static_cast<size_t>(model.node(model.loss()).inputs[0])];
  made.add_result("scores", scores);
  add_loss(made, name, scores, format("{}: its scores", model.name()));
  return made;
}

bool has_targets(const Model& model) {
  for (ValueId id = 0; id < model.values(); ++id)
    if (model.value(id).role == Role::kLabel)
      return model.value(id).spec.dtype == ops::DType::kFloat32;
  return false;
}

}  // namespace kerf::partitioner
