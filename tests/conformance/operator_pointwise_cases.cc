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
  cases.push_back({.name = "SoftmaxCrossEntropyLoss",
                   .op = "SoftmaxCrossEntropyLoss",
                   .inputs = {activation({kBatch, 10}), classes({kBatch}, 10)},
                   .samples = 4,
                   .epsilon = 0.01,
                   .whole_axes = {"classes"}});
  cases.push_back({.name = "SoftmaxCrossEntropyLoss_of_positions",
                   .op = "SoftmaxCrossEntropyLoss",
                   .inputs = {activation({kBatch, 6, 5}), classes({kBatch, 5}, 6)},
                   .epsilon = 0.01,
                   .whole_axes = {"classes"}});
}

}  // namespace

std::vector<OperatorCase> pointwise_cases() {
  std::vector<OperatorCase> cases;
  add_shape_cases(cases);
  add_dropout_cases(cases);
  add_row_cases(cases);
  return cases;
}

}  // namespace kerf::ops
