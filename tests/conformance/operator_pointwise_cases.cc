// Cases of what works element by element, or row by row; and of other shapes for the same elements.
#include "tests/conformance/operator_case.h"

namespace kerf::ops {
namespace {

using Ints = std::vector<int64_t>;

void add_shape_cases(std::vector<OperatorCase>& cases) {
  const auto add = [&](std::string name, std::string op, Attributes attributes, const Shape& shape,
                       std::vector<std::string> whole_axes = {}) {
    cases.push_back({.name = std::move(name),
                     .op = std::move(op),
                     .attributes = std::move(attributes),
                     .inputs = {activation(shape)},
                     .whole_axes = std::move(whole_axes)});
  };
  add("Flatten_channels", "Flatten", {}, {kBatch, 5, 2, 3});
  add("Flatten_of_a_vector", "Flatten", {}, {kBatch, 9});
  add("Flatten_of_all_but_the_last", "Flatten", {{"axis", int64_t{2}}}, {kBatch, 4, 5});
  add("Reshape_to_an_image", "Reshape", {{"shape", Ints{-1, 4, 3, 2}}}, {kBatch, 24});
  add("Reshape_inferring_features", "Reshape", {{"shape", Ints{0, -1}}}, {kBatch, 4, 5});
  add("Reshape_without_common_axes", "Reshape", {{"shape", Ints{0, 6, 4}}}, {kBatch, 4, 6},
      {"axis 1"});
}

void add_dropout_cases(std::vector<OperatorCase>& cases) {
  const auto add = [&](std::string name, double ratio, const Shape& shape) {
    cases.push_back({.name = std::move(name),
                     .op = "Dropout",
                     .attributes = {{"ratio", ratio}},
                     .inputs = {activation(shape)}});
  };
  add("Dropout", 0.3, {kBatch, 7, 3, 2});
  add("Dropout_with_the_batch_inside", 0.3, {4, kBatch, 5});
  add("Dropout_of_nothing", 0.0, {kBatch, 5});
  add("Dropout_with_its_mask", 0.3, {kBatch, 7, 3});
  cases.back().outputs = 2;
  add("Dropout_with_a_seed", 0.3, {kBatch, 7, 3});
  cases.back().attributes["seed"] = int64_t{17};
}

void add_row_cases(std::vector<OperatorCase>& cases) {
  cases.push_back({.name = "Softmax_last_axis",
                   .op = "Softmax",
                   .inputs = {activation({kBatch, 4, 6})},
                   .epsilon = 0.01,
                   .whole_axes = {"features"}});
  cases.push_back({.name = "Softmax_of_channels",
                   .op = "Softmax",
                   .attributes = {{"axis", int64_t{1}}},
                   .inputs = {activation({kBatch, 5, 2, 3})},
                   .epsilon = 0.01,
                   .whole_axes = {"features"}});
  for (const char* op : {"LogSoftmax", "Hardmax"})
    for (const int64_t axis : {1, 2, 3})
      cases.push_back({.name = std::string(op) + "_of_axis_" + std::to_string(axis),
                       .op = op,
                       .attributes = {{"axis", axis}},
                       .inputs = {activation({kBatch, 5, 2, 3})},
                       .epsilon = 0.01,
                       .whole_axes = {axis == 1 ? "features" : "axis " + std::to_string(axis)}});
  for (OperatorCase& scene : cases)  // a choice has no slope
    if (scene.op == "Hardmax") scene.inputs[0].role = Role::kInput;
}

void add_loss_cases(std::vector<OperatorCase>& cases) {
  const auto add = [&](std::string name, const std::string& op, Attributes attributes,
                       std::vector<CaseInput> inputs) -> OperatorCase& {
    cases.push_back({.name = op + std::move(name),
                     .op = op,
                     .attributes = std::move(attributes),
                     .inputs = std::move(inputs),
                     .samples = 4,
                     .epsilon = 0.01,
                     .whole_axes = {"classes"}});
    return cases.back();
  };
  const CaseInput weights = numbers(DType::kFloat32, {6}, Draw::kPositive);
  const Attributes none{{"reduction", "none"}};
  const Attributes sum{{"reduction", "sum"}};
  add("", "SoftmaxCrossEntropyLoss", {}, {activation({kBatch, 10}), classes({kBatch}, 10)});
  for (const char* op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}) {
    const CaseInput scores = activation({kBatch, 6, 5});
    const CaseInput labels = classes({kBatch, 5}, 6);
    add("_of_positions", op, {}, {scores, labels});
    add("_of_each", op, none, {scores, labels});
    add("_weighted_of_each", op, none, {scores, labels, weights});
    add("_weighted_sum", op, sum, {scores, labels, weights});
    add("_ignoring_a_class", op, {{"reduction", "sum"}, {"ignore_index", int64_t{2}}},
        {scores, labels});
    add("_of_int32", op, {},
        {activation({kBatch, 6}), integers(DType::kInt32, {kBatch}, Draw::kClass, 6)});
    add("_weighted_mean", op, {{"ignore_index", int64_t{2}}}, {scores, labels, weights})
        .whole_axes = {"samples", "classes", "axis 2"};
  }
  add("_with_logarithms", "SoftmaxCrossEntropyLoss", none,
      {activation({kBatch, 6, 5}), classes({kBatch, 5}, 6)})
      .outputs = 2;
  add("_sum_with_logarithms", "SoftmaxCrossEntropyLoss", sum,
      {activation({kBatch, 6}), classes({kBatch}, 6), absent()})
      .outputs = 2;
}

}  // namespace

std::vector<OperatorCase> pointwise_cases() {
  std::vector<OperatorCase> cases;
  add_shape_cases(cases);
  add_dropout_cases(cases);
  add_row_cases(cases);
  add_loss_cases(cases);
  return cases;
}

}  // namespace kerf::ops
