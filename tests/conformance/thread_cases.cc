// What is compared at one and at several threads: large enough to be divided among them.
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/operator_case.h"

namespace kerf::ops {
namespace {

OperatorCase scene(std::string name, std::string op, Attributes attributes,
                   std::vector<CaseInput> inputs) {
  return {.name = std::move(name),
          .op = std::move(op),
          .attributes = std::move(attributes),
          .inputs = std::move(inputs),
          .samples = 32};
}

OperatorCase few_samples(OperatorCase of, int64_t samples) {
  of.samples = samples;
  return of;
}

OperatorCase turned(std::string name, std::string op, Attributes attributes,
                    std::vector<CaseInput> inputs) {
  return channels_last(
             scene(std::move(name), std::move(op), std::move(attributes), std::move(inputs)))
      .value();
}

std::vector<CaseInput> normalised(const Shape& x) {
  const Shape channels{x[1]};
  return {activation(x), parameter(channels), parameter(channels), state(channels),
          state(channels, Draw::kPositive)};
}

Attributes windows_of_two() {
  const std::vector<int64_t> two{2, 2};
  return {{"kernel_shape", two}, {"strides", two}};
}

const Attributes kTraining{{"training_mode", int64_t{1}}};

// Products, convolutions, and layers whose channels come last.
std::vector<ThreadCase> products_and_images() {
  const Attributes window = windows_of_two();
  return {
      {scene("Gemm", "Gemm", {{"transB", int64_t{1}}},
             {activation({kBatch, 300}), parameter({200, 300}), parameter({200})}),
       false},
      // Large enough for panels (ops/cpu/panel_matmul.h) in every pass.
      {few_samples(scene("Gemm_of_panels", "Gemm", {{"transB", int64_t{1}}},
                         {activation({kBatch, 300}), parameter({260, 300}), parameter({260})}),
                   270),
       false},
      // Samples are columns, of which 96 are whole tiles of panels and 100 are not.
      {few_samples(scene("Gemm_of_columns_of_panels", "Gemm", {{"transA", int64_t{1}}},
                         {activation({72, kBatch}), parameter({72, 100})}),
                   100),
       false},
      {few_samples(scene("Einsum_of_columns_of_panels", "Einsum", {{"equation", "ij,bj->bi"}},
                         {parameter({72, 100}), activation({kBatch, 100})}),
                   100),
       false},
      {few_samples(scene("MatMul_of_panels", "MatMul", {},
                         {activation({kBatch, 256, 70}), activation({kBatch, 70, 256})}),
                   3),
       false},
      {few_samples(scene("Attention_of_panels", "Attention",
                         {{"q_num_heads", int64_t{1}}, {"kv_num_heads", int64_t{1}}},
                         {activation({kBatch, 64, 256}), activation({kBatch, 256, 256}),
                          activation({kBatch, 256, 256})}),
                   3),
       false},
      // The first block of queries sees 64 keys, which are whole tiles of a panel; all are not.
      {scene("Attention_of_panels_in_its_first_block", "Attention",
             {{"is_causal", int64_t{1}}, {"q_num_heads", int64_t{1}}, {"kv_num_heads", int64_t{1}}},
             {activation({kBatch, 100, 72}), activation({kBatch, 100, 72}),
              activation({kBatch, 100, 72})}),
       false},
      {scene("MatMul", "MatMul", {}, {activation({kBatch, 40, 64}), activation({kBatch, 64, 40})}),
       false},
      {scene("Conv_of_few_channels", "Conv", {},
             {activation({kBatch, 6, 14, 14}), parameter({16, 6, 5, 5}), parameter({16})})},
      {scene("Conv_of_many_channels", "Conv", {{"auto_pad", "SAME_UPPER"}},
             {activation({kBatch, 32, 14, 14}), parameter({32, 32, 3, 3}), parameter({32})}),
       false},
      {turned("Conv_of_two_channels", "Conv", {{"pads", std::vector<int64_t>{1, 1, 1, 1}}},
              {activation({kBatch, 2, 28, 28}), parameter({6, 2, 3, 3}), parameter({6})})},
      {turned("Conv_of_few_channels", "Conv", {{"pads", std::vector<int64_t>{2, 2, 2, 2}}},
              {activation({kBatch, 6, 14, 14}), parameter({16, 6, 5, 5}), parameter({16})}),
       false},
      {turned("Conv_of_many_channels", "Conv", {{"auto_pad", "SAME_UPPER"}},
              {activation({kBatch, 32, 14, 14}), parameter({32, 32, 3, 3}), parameter({32})}),
       false},
      {turned("MaxPool", "MaxPool", window, {activation({kBatch, 6, 28, 28})})},
      {turned("MaxPool_of_many_channels", "MaxPool", window, {activation({kBatch, 20, 28, 28})})},
      {turned("AveragePool", "AveragePool", window, {activation({kBatch, 8, 28, 28})})},
      {turned("BatchNormalization", "BatchNormalization", kTraining,
              normalised({kBatch, 100, 6, 5}))},
      {turned("BatchNormalization_of_few_channels", "BatchNormalization", kTraining,
              normalised({kBatch, 6, 20, 20}))},
      {turned("BatchNormalization_of_some_channels", "BatchNormalization", kTraining,
              normalised({kBatch, 32, 20, 20}))},
      {turned("ChannelSum", "ChannelSum", {}, {activation({kBatch, 10, 20, 20})})},
  };
}

// Element by element, and what moves them.
std::vector<ThreadCase> elements_and_moves() {
  const Attributes window = windows_of_two();
  return {
      {scene("MaxPool", "MaxPool", window, {activation({kBatch, 8, 28, 28})})},
      {scene("AveragePool", "AveragePool", window, {activation({kBatch, 8, 28, 28})})},
      {scene("Relu", "Relu", {}, {activation({kBatch, 4096})})},
      {scene("Gelu", "Gelu", {}, {activation({kBatch, 1501})})},
      {scene("Add_bias", "Add", {}, {activation({kBatch, 4096}), parameter({4096})})},
      {scene("Mul_of_channels", "Mul", {},
             {activation({kBatch, 32, 14, 14}), activation({kBatch, 32, 1, 1})})},
      {scene("Pow", "Pow", {},
             {activation({kBatch, 1501}, Draw::kPositive), activation({kBatch, 1501})})},
      {scene("Softmax", "Softmax", {}, {activation({kBatch, 4096})})},
      {scene("Gather", "Gather", {}, {parameter({50, 512}), classes({kBatch, 8}, 50)})},
      {scene("Transpose", "Transpose", {{"perm", std::vector<int64_t>{0, 2, 1}}},
             {activation({kBatch, 64, 80})})},
      {scene("Transpose_of_three_axes", "Transpose", {{"perm", std::vector<int64_t>{2, 0, 1}}},
             {parameter({64, 80, 30})})},
      {scene("Slice_by_steps", "Slice",
             {{"starts", std::vector<int64_t>{-1, 5}},
              {"ends", std::vector<int64_t>{-70, 2000}},
              {"axes", std::vector<int64_t>{1, 2}},
              {"steps", std::vector<int64_t>{-1, 2}}},
             {activation({kBatch, 64, 80})})},
      {scene("Pad_by_the_edge", "Pad",
             {{"pads", std::vector<int64_t>{0, 0, 2, 3, 0, 0, 2, 3}}, {"mode", "edge"}},
             {activation({kBatch, 8, 40, 30})})},
      {scene("Expand", "Expand", {{"shape", std::vector<int64_t>{-1, 40, 64}}},
             {parameter({1, 40, 1})})},
      {scene("Tile", "Tile", {{"repeats", std::vector<int64_t>{1, 4, 3}}},
             {activation({kBatch, 30, 40})})},
      {scene("Concat_of_channels", "Concat", {{"axis", int64_t{1}}},
             {activation({kBatch, 30, 40}), activation({kBatch, 20, 40})})},
      {scene("GatherElements", "GatherElements", {{"axis", int64_t{1}}},
             {activation({kBatch, 60, 40}), classes({kBatch, 50, 40}, 60)})},
      {scene("CumSum", "CumSum", {{"axis", int64_t{1}}}, {activation({kBatch, 60, 40})})},
  };
}

// Sums over axes, normalisations, sequences.
std::vector<ThreadCase> sums_and_sequences() {
  return {
      {scene("ReduceSum_of_rows", "ReduceSum", {{"axes", std::vector<int64_t>{-1}}},
             {activation({kBatch, 20, 300})})},
      {scene("ReduceSum_of_columns", "ReduceSum", {{"axes", std::vector<int64_t>{0}}},
             {parameter({300, 500})})},
      {scene("ReduceMax_of_axes_apart", "ReduceMax", {{"axes", std::vector<int64_t>{0, 2}}},
             {parameter({30, 50, 40, 10}, Draw::kApart)})},
      {scene("ReduceLogSumExp", "ReduceLogSumExp", {{"axes", std::vector<int64_t>{1}}},
             {activation({kBatch, 50, 40})})},
      {scene("ScatterND_added", "ScatterND", {{"reduction", "add"}},
             {parameter({300, 80}), classes({500, 1}, 300), parameter({500, 80})})},
      {scene("EyeLike", "EyeLike", {{"dtype", int64_t{1}}}, {numbers(DType::kInt32, {300, 400})})},
      {{.name = "ChannelStatistics",
        .op = "ChannelStatistics",
        .inputs = {activation({2, 40000}, Draw::kPositive), activation({40000}, Draw::kPositive),
                   state({40000}), state({40000}, Draw::kPositive)},
        .outputs = 2}},
      {scene("TopK", "TopK", {{"k", int64_t{3}}}, {activation({kBatch, 40, 50})})},
      {scene("Einsum", "Einsum", {{"equation", "bqhd,bkhd->bhqk"}},
             {activation({kBatch, 20, 4, 16}), activation({kBatch, 24, 4, 16})}),
       false},
      {scene("BatchNormalization", "BatchNormalization", kTraining, normalised({kBatch, 100, 30}))},
      {scene("LayerNormalization", "LayerNormalization", {},
             {activation({kBatch, 20, 100}), parameter({100}), parameter({100})})},
      {scene("LSTM", "LSTM", {},
             {activation({6, kBatch, 40}), parameter({1, 512, 40}), parameter({1, 512, 128})}),
       false},
      {scene("Attention", "Attention",
             {{"is_causal", int64_t{1}}, {"q_num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}},
             {activation({kBatch, 20, 64}), activation({kBatch, 20, 32}),
              activation({kBatch, 20, 32})})},
      {scene("LRN", "LRN", {{"size", int64_t{5}}}, {activation({kBatch, 16, 9, 9})})},
      {scene("GlobalAveragePool", "GlobalAveragePool", {}, {activation({kBatch, 64, 9, 9})})},
      {scene("GRU", "GRU", {},
             {activation({6, kBatch, 40}), parameter({1, 384, 40}), parameter({1, 384, 128})}),
       false},
      {scene("Dropout", "Dropout", {{"ratio", 0.5}}, {activation({kBatch, 4096})})},
      {scene("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss", {},
             {activation({kBatch, 1000}), classes({kBatch}, 1000)})},
  };
}

}  // namespace

std::vector<ThreadCase> thread_cases() {
  std::vector<ThreadCase> cases;
  for (const auto& some : {products_and_images(), elements_and_moves(), sums_and_sequences()})
    cases.insert(cases.end(), some.begin(), some.end());
  return cases;
}

}  // namespace kerf::ops
