// Cases of operators that move, pick and normalise.
#include "tests/conformance/operator_case.h"

namespace kerf::ops {
namespace {

using Ints = std::vector<int64_t>;

void add_moving_cases(std::vector<OperatorCase>& cases) {
  cases.push_back({.name = "Split_of_features",
                   .op = "Split",
                   .attributes = {{"axis", int64_t{1}}, {"split", Ints{2, 5, 1}}},
                   .inputs = {activation({kBatch, 8, 3})},
                   .outputs = 3});
  cases.push_back({.name = "Split_of_a_parameter_into_halves",
                   .op = "Split",
                   .inputs = {parameter({6, 4})},
                   .outputs = 2});
  cases.push_back({.name = "Concat",
                   .op = "Concat",
                   .attributes = {{"axis", int64_t{1}}},
                   .inputs = {activation({kBatch, 3, 2}), activation({kBatch, 1, 2}),
                              activation({kBatch, 4, 2})}});
  cases.push_back({.name = "Concat_of_parameters",
                   .op = "Concat",
                   .attributes = {{"axis", int64_t{-1}}},
                   .inputs = {parameter({5, 3}), parameter({5, 4})}});
  cases.push_back({.name = "Transpose_of_heads",
                   .op = "Transpose",
                   .attributes = {{"perm", Ints{0, 2, 1, 3}}},
                   .inputs = {activation({kBatch, 5, 3, 4})}});
  cases.push_back(
      {.name = "Transpose_of_a_parameter", .op = "Transpose", .inputs = {parameter({19, 35})}});
  cases.push_back({.name = "Gather_of_an_embedding",
                   .op = "Gather",
                   .inputs = {parameter({9, 4}), classes({kBatch, 3}, 9)}});
  cases.push_back({.name = "Gather_along_a_later_axis",
                   .op = "Gather",
                   .attributes = {{"axis", int64_t{1}}},
                   .inputs = {parameter({3, 7, 2}), classes({kBatch}, 7)}});
}

void add_normalizing_cases(std::vector<OperatorCase>& cases) {
  const auto batch_norm = [&](std::string name, Shape x, bool training,
                              std::vector<std::string> whole) {
    const Shape c{x[1]};
    cases.push_back({.name = std::move(name),
                     .op = "BatchNormalization",
                     .attributes = {{"training_mode", int64_t{training}}, {"epsilon", 1e-2}},
                     .inputs = {activation(x, Draw::kApart), parameter(c, Draw::kPositive),
                                parameter(c), state(c), state(c, Draw::kPositive)},
                     .outputs = training ? 3 : 1,
                     .samples = 4,
                     .epsilon = 0.01,
                     .whole_axes = std::move(whole)});
  };
  batch_norm("BatchNormalization_of_images", {kBatch, 3, 2, 4}, true,
             {"samples", "axis 2", "axis 3"});
  batch_norm("BatchNormalization_of_many_channels", {kBatch, 67, 1, 2}, true,
             {"samples", "axis 2", "axis 3"});
  batch_norm("BatchNormalization_of_rows", {kBatch, 5}, true, {"samples"});
  batch_norm("BatchNormalization_by_states", {kBatch, 4, 3}, false, {});
  cases.push_back({.name = "LayerNormalization",
                   .op = "LayerNormalization",
                   .inputs = {activation({kBatch, 3, 6}, Draw::kApart),
                              parameter({6}, Draw::kPositive), parameter({6})},
                   .epsilon = 0.01,
                   .whole_axes = {"features"}});
  cases.push_back({.name = "LayerNormalization_with_statistics",
                   .op = "LayerNormalization",
                   .attributes = {{"axis", int64_t{1}}},
                   .inputs = {activation({kBatch, 4, 3}, Draw::kApart), parameter({4, 3})},
                   .outputs = 3,
                   .epsilon = 0.005,
                   .whole_axes = {"axis 1", "features"}});
}

// What divided normalisation and divided cross-entropy are made of.
void add_piece_cases(std::vector<OperatorCase>& cases) {
  const CaseInput totals = activation({2, 4}, Draw::kPositive);
  cases.push_back(
      {.name = "ChannelSum", .op = "ChannelSum", .inputs = {activation({kBatch, 4, 5})}});
  cases.push_back({.name = "ChannelSum_of_images",
                   .op = "ChannelSum",
                   .inputs = {activation({kBatch, 4, 5, 2})}});
  cases.push_back({.name = "CenteredSquareSum_of_images",
                   .op = "CenteredSquareSum",
                   .inputs = {activation({kBatch, 4, 2, 3}), totals},
                   .epsilon = 0.005});
  cases.push_back({.name = "CenteredSquareSum",
                   .op = "CenteredSquareSum",
                   .inputs = {activation({kBatch, 4, 5}), totals},
                   .epsilon = 0.005});
  cases.push_back({.name = "ChannelStatistics",
                   .op = "ChannelStatistics",
                   .inputs = {totals, activation({4}, Draw::kPositive), state({4}),
                              state({4}, Draw::kPositive)},
                   .outputs = 2,
                   .epsilon = 0.005});
  const auto rows = [&](const char* name, const char* op, std::vector<CaseInput> inputs,
                        const Attributes& attributes = {}) {
    cases.push_back({.name = name,
                     .op = op,
                     .attributes = attributes,
                     .inputs = std::move(inputs),
                     .epsilon = 0.005});
  };
  const CaseInput sums = activation({kBatch, 4, 1}, Draw::kPositive);
  const CaseInput x = activation({kBatch, 4, 6}, Draw::kApart);
  rows("RowSum", "RowSum", {x});
  rows("RowSum_of_planes", "RowSum", {activation({kBatch, 4, 3, 2})}, {{"axis", int64_t{2}}});
  rows("RowSquareSum", "RowSquareSum", {x});
  rows("RowSquareSum_centred", "RowSquareSum", {x, sums});
  rows("RowNormalization", "RowNormalization",
       {x, parameter({6}, Draw::kPositive), sums, parameter({6}), sums}, {{"epsilon", 0.01}});
  rows("RowNormalization_by_squares", "RowNormalization",
       {x, parameter({6}, Draw::kPositive), sums});
  rows("RowNormalization_of_planes", "RowNormalization",
       {activation({kBatch, 2, 3}), parameter({2, 3}), activation({kBatch, 1, 1}, Draw::kPositive),
        absent(), activation({kBatch, 1, 1})},
       {{"axis", int64_t{1}}});
  cases.push_back({.name = "SegmentLogSumExp",
                   .op = "SegmentLogSumExp",
                   .attributes = {{"boundaries", Ints{0, 3, 4, 9}}},
                   .inputs = {activation({kBatch, 9, 2}, Draw::kApart)},
                   .outputs = 2,
                   .epsilon = 0.01});
  cases.push_back({.name = "SegmentLogSumExp_of_the_last_axis",
                   .op = "SegmentLogSumExp",
                   .attributes = {{"boundaries", Ints{0, 2, 7}}, {"axis", int64_t{2}}},
                   .inputs = {activation({kBatch, 3, 7}, Draw::kApart)},
                   .outputs = 2,
                   .epsilon = 0.01});
  for (const bool logarithm : {false, true})
    cases.push_back({.name = logarithm ? "SegmentSoftmax_logarithm" : "SegmentSoftmax",
                     .op = "SegmentSoftmax",
                     .attributes = {{"axis", int64_t{1}}, {"logarithm", int64_t{logarithm}}},
                     .inputs = {activation({kBatch, 5, 2}), activation({kBatch, 3, 2}),
                                activation({kBatch, 3, 2})},
                     .epsilon = 0.01});
  cases.push_back({.name = "PickLabel",
                   .op = "PickLabel",
                   .inputs = {activation({kBatch, 7, 2}), classes({kBatch, 2}, 7)}});
  cases.push_back(
      {.name = "LogLoss",
       .op = "LogLoss",
       .inputs = {activation({kBatch, 3, 2}), activation({kBatch, 3, 2}), activation({kBatch, 2})},
       .epsilon = 0.01,
       .whole_axes = {"segments"}});
  cases.push_back({.name = "SumLoss", .op = "SumLoss", .inputs = {activation({kBatch, 3})}});
  CaseInput weights = activation({kBatch, 1, 4});
  weights.role = Role::kInput;
  cases.push_back({.name = "SumLoss_weighted",
                   .op = "SumLoss",
                   .inputs = {activation({kBatch, 3, 4}), weights}});
}

}  // namespace

std::vector<OperatorCase> sequence_cases() {
  std::vector<OperatorCase> cases;
  add_moving_cases(cases);
  add_normalizing_cases(cases);
  add_piece_cases(cases);
  return cases;
}

}  // namespace kerf::ops
