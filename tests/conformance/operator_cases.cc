// The cases: every registered operator has at least one.
#include "tests/conformance/operator_case.h"

namespace kerf::ops {
namespace {

using Ints = std::vector<int64_t>;

CaseInput activation(Shape shape, Draw draw = Draw::kUniform) {
  return {{DType::kFloat32, shape}, false, draw, 0};
}

CaseInput parameter(Shape shape) { return {{DType::kFloat32, shape}, true, Draw::kUniform, 0}; }

CaseInput labels(int64_t classes) {
  return {{DType::kInt64, {kBatch}}, false, Draw::kClass, classes};
}

Attributes window(Ints kernel, Ints strides, Ints pads, Ints dilations = {1, 1}) {
  return {{"kernel_shape", std::move(kernel)},
          {"strides", std::move(strides)},
          {"pads", std::move(pads)},
          {"dilations", std::move(dilations)}};
}

Attributes with(Attributes attributes, const std::string& name, Attribute value) {
  attributes[name] = std::move(value);
  return attributes;
}

void add_gemm_cases(std::vector<OperatorCase>& cases) {
  cases.push_back({.name = "Gemm_transposed_with_bias",
                   .op = "Gemm",
                   .attributes = {{"transB", int64_t{1}}},
                   .inputs = {activation({kBatch, 7}), parameter({11, 7}), parameter({11})},
                   .samples = 5});
  cases.push_back({.name = "Gemm_scaled",
                   .op = "Gemm",
                   .attributes = {{"alpha", 0.5}, {"beta", -1.5}},
                   .inputs = {activation({kBatch, 5}), parameter({5, 13}), parameter({1, 13})},
                   .samples = 4});
  cases.push_back({.name = "Gemm_with_rows_a_power_of_two_apart",
                   .op = "Gemm",
                   .attributes = {{"transB", int64_t{1}}},
                   .inputs = {activation({kBatch, 512}), parameter({256, 512}), parameter({256})},
                   .samples = 48});
  cases.push_back({.name = "Gemm_without_bias",
                   .op = "Gemm",
                   .inputs = {activation({kBatch, 9}), parameter({9, 6})}});
}

void add_conv_cases(std::vector<OperatorCase>& cases) {
  cases.push_back(
      {.name = "Conv_padded",
       .op = "Conv",
       .attributes = window({3, 3}, {1, 1}, {1, 1, 1, 1}),
       .inputs = {activation({kBatch, 3, 7, 9}), parameter({5, 3, 3, 3}), parameter({5})}});
  cases.push_back(
      {.name = "Conv_5x5_of_one_channel",
       .op = "Conv",
       .attributes = {{"pads", Ints{2, 2, 2, 2}}},
       .inputs = {activation({kBatch, 1, 12, 10}), parameter({6, 1, 5, 5}), parameter({6})}});
  cases.push_back(
      {.name = "Conv_strided_uneven_pads",
       .op = "Conv",
       .attributes = window({3, 2}, {2, 3}, {1, 0, 2, 1}),
       .inputs = {activation({kBatch, 2, 8, 11}), parameter({4, 2, 3, 2}), parameter({4})}});
  cases.push_back({.name = "Conv_dilated_without_bias",
                   .op = "Conv",
                   .attributes = window({2, 3}, {1, 1}, {0, 1, 1, 2}, {3, 2}),
                   .inputs = {activation({kBatch, 2, 9, 8}), parameter({3, 2, 2, 3})}});
  cases.push_back(
      {.name = "Conv_three_groups",
       .op = "Conv",
       .attributes = with(window({3, 3}, {1, 1}, {1, 1, 1, 1}), "group", int64_t{3}),
       .inputs = {activation({kBatch, 6, 5, 6}), parameter({9, 2, 3, 3}), parameter({9})},
       .unit = 3});
  cases.push_back(
      {.name = "Conv_many_channels",
       .op = "Conv",
       .attributes = with(window({3, 3}, {1, 1}, {0, 0, 0, 0}), "auto_pad", "SAME_UPPER"),
       .inputs = {activation({kBatch, 17, 6, 6}), parameter({19, 17, 3, 3}), parameter({19})},
       .samples = 2});
}

void add_pool_cases(std::vector<OperatorCase>& cases) {
  const auto add = [&](std::string name, std::string op, Attributes attributes, Shape x,
                       Draw draw) {
    cases.push_back({.name = std::move(name),
                     .op = std::move(op),
                     .attributes = std::move(attributes),
                     .inputs = {activation(x, draw)},
                     .epsilon = draw == Draw::kApart ? 0.02 : 0.25});
  };
  const auto two = window({2, 2}, {2, 2}, {0, 0, 0, 0});
  add("MaxPool_2x2", "MaxPool", two, {kBatch, 5, 6, 8}, Draw::kApart);
  add("MaxPool_2x2_with_a_rest", "MaxPool", two, {kBatch, 3, 7, 37}, Draw::kApart);
  add("MaxPool_overlapping", "MaxPool", window({3, 3}, {2, 2}, {1, 1, 1, 1}), {kBatch, 4, 7, 6},
      Draw::kApart);
  add("MaxPool_dilated_ceil", "MaxPool",
      with(window({2, 3}, {2, 3}, {0, 1, 1, 0}, {2, 1}), "ceil_mode", int64_t{1}),
      {kBatch, 3, 8, 9}, Draw::kApart);
  add("MaxPool_large_window", "MaxPool", window({17, 17}, {1, 1}, {0, 0, 0, 0}),
      {kBatch, 2, 18, 17}, Draw::kApart);
  add("AveragePool_2x2", "AveragePool", two, {kBatch, 4, 6, 6}, Draw::kUniform);
  add("AveragePool_padded", "AveragePool", window({3, 2}, {2, 1}, {1, 1, 1, 0}), {kBatch, 3, 7, 5},
      Draw::kUniform);
  add("AveragePool_counting_padding", "AveragePool",
      with(with(window({3, 3}, {2, 2}, {1, 1, 1, 1}), "count_include_pad", int64_t{1}), "ceil_mode",
           int64_t{1}),
      {kBatch, 3, 6, 7}, Draw::kUniform);
}

void add_shape_cases(std::vector<OperatorCase>& cases) {
  cases.push_back({.name = "Flatten_channels",
                   .op = "Flatten",
                   .inputs = {activation({kBatch, 5, 2, 3})},
                   .unit = 6});
  cases.push_back(
      {.name = "Flatten_of_a_vector", .op = "Flatten", .inputs = {activation({kBatch, 9})}});
  cases.push_back({.name = "Reshape_to_an_image",
                   .op = "Reshape",
                   .attributes = {{"shape", Ints{-1, 4, 3, 2}}},
                   .inputs = {activation({kBatch, 24})}});
  cases.push_back({.name = "Reshape_inferring_features",
                   .op = "Reshape",
                   .attributes = {{"shape", Ints{0, -1}}},
                   .inputs = {activation({kBatch, 4, 5})},
                   .unit = 5});
}

void add_pointwise_cases(std::vector<OperatorCase>& cases) {
  cases.push_back({.name = "Relu",
                   .op = "Relu",
                   .inputs = {activation({kBatch, 6, 5, 3}, Draw::kApart)},
                   .epsilon = 0.02});
  cases.push_back({.name = "Add_of_one_shape",
                   .op = "Add",
                   .inputs = {activation({kBatch, 7, 3}), activation({kBatch, 7, 3})}});
  cases.push_back(
      {.name = "Add_bias", .op = "Add", .inputs = {activation({kBatch, 9}), parameter({9})}});
  cases.push_back({.name = "Add_bias_of_channels",
                   .op = "Add",
                   .inputs = {parameter({4, 1, 1}), activation({kBatch, 4, 3, 5})}});
  cases.push_back(
      {.name = "Add_one_number", .op = "Add", .inputs = {activation({kBatch, 5}), parameter({1})}});
}

void add_matmul_cases(std::vector<OperatorCase>& cases) {
  cases.push_back(
      {.name = "MatMul", .op = "MatMul", .inputs = {activation({kBatch, 7}), parameter({7, 9})}});
  cases.push_back({.name = "MatMul_of_sequences",
                   .op = "MatMul",
                   .inputs = {activation({kBatch, 4, 5}), parameter({5, 6})}});
  cases.push_back({.name = "MatMul_of_two_activations",
                   .op = "MatMul",
                   .inputs = {activation({kBatch, 5, 3}), activation({kBatch, 3, 4})}});
}

void add_dropout_cases(std::vector<OperatorCase>& cases) {
  cases.push_back({.name = "Dropout",
                   .op = "Dropout",
                   .attributes = {{"ratio", 0.3}},
                   .inputs = {activation({kBatch, 7, 3, 2})}});
  cases.push_back({.name = "Dropout_of_nothing",
                   .op = "Dropout",
                   .attributes = {{"ratio", 0.0}},
                   .inputs = {activation({kBatch, 5})}});
}

void add_softmax_cases(std::vector<OperatorCase>& cases) {
  cases.push_back({.name = "Softmax_last_axis",
                   .op = "Softmax",
                   .inputs = {activation({kBatch, 4, 6})},
                   .epsilon = 0.01});
  cases.push_back({.name = "Softmax_of_channels",
                   .op = "Softmax",
                   .attributes = {{"axis", int64_t{1}}},
                   .inputs = {activation({kBatch, 5, 2, 3})},
                   .epsilon = 0.01,
                   .divides = false});
}

void add_loss_cases(std::vector<OperatorCase>& cases) {
  cases.push_back({.name = "SoftmaxCrossEntropyLoss",
                   .op = "SoftmaxCrossEntropyLoss",
                   .inputs = {activation({kBatch, 10}), labels(10)},
                   .samples = 4,
                   .epsilon = 0.01,
                   .divides = false});
}

}  // namespace

std::vector<OperatorCase> operator_cases() {
  std::vector<OperatorCase> cases;
  add_gemm_cases(cases);
  add_conv_cases(cases);
  add_pool_cases(cases);
  add_shape_cases(cases);
  add_pointwise_cases(cases);
  add_matmul_cases(cases);
  add_dropout_cases(cases);
  add_softmax_cases(cases);
  add_loss_cases(cases);
  return cases;
}

}  // namespace kerf::ops
