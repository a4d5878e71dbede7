// Cases of operators with windows over space.
#include "tests/conformance/operator_case.h"

namespace kerf::ops {
namespace {

using Ints = std::vector<int64_t>;

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

void add_conv_cases(std::vector<OperatorCase>& cases) {
  const auto add = [&](std::string name, Attributes attributes, std::vector<CaseInput> inputs,
                       int64_t samples = 3) {
    cases.push_back({.name = std::move(name),
                     .op = "Conv",
                     .attributes = std::move(attributes),
                     .inputs = std::move(inputs),
                     .samples = samples});
  };
  add("Conv_padded", window({3, 3}, {1, 1}, {1, 1, 1, 1}),
      {activation({kBatch, 3, 7, 9}), parameter({5, 3, 3, 3}), parameter({5})});
  cases.back().flops = {315 * 54 + 315, 315 * 54, 315 * 54 + 315};
  add("Conv_5x5_of_one_channel", {{"pads", Ints{2, 2, 2, 2}}},
      {activation({kBatch, 1, 12, 10}), parameter({6, 1, 5, 5}), parameter({6})});
  add("Conv_strided_uneven_pads", window({3, 2}, {2, 3}, {1, 0, 2, 1}),
      {activation({kBatch, 2, 8, 11}), parameter({4, 2, 3, 2}), parameter({4})});
  add("Conv_dilated_without_bias", window({2, 3}, {1, 1}, {0, 1, 1, 2}, {3, 2}),
      {activation({kBatch, 2, 9, 8}), parameter({3, 2, 2, 3}), absent()});
  add("Conv_three_groups", with(window({3, 3}, {1, 1}, {1, 1, 1, 1}), "group", int64_t{3}),
      {activation({kBatch, 6, 5, 6}), parameter({9, 2, 3, 3}), parameter({9})});
  cases.back().flops = {270 * 36 + 270, 270 * 36, 270 * 36 + 270};
  add("Conv_of_each_channel", with(window({3, 3}, {2, 2}, {1, 1, 1, 1}), "group", int64_t{8}),
      {activation({kBatch, 8, 6, 7}), parameter({8, 1, 3, 3}), parameter({8})});
  add("Conv_many_channels", with(window({3, 3}, {1, 1}, {0, 0, 0, 0}), "auto_pad", "SAME_UPPER"),
      {activation({kBatch, 17, 6, 6}), parameter({19, 17, 3, 3}), parameter({19})}, 2);
  add("Conv_of_a_pixel", window({1, 1}, {1, 1}, {0, 0, 0, 0}),
      {activation({kBatch, 3, 3, 31}), parameter({7, 3, 1, 1}), parameter({7})});
  add("Conv_of_few_channels_to_many", window({3, 5}, {1, 2}, {2, 1, 0, 3}),
      {activation({kBatch, 5, 6, 33}), parameter({37, 5, 3, 5}), parameter({37})}, 2);
  add("Conv_of_more_samples_than_fit_the_cache", {{"pads", Ints{2, 2, 2, 2}}},
      {activation({kBatch, 1, 5, 6}), parameter({2, 1, 5, 5}), parameter({2})}, 18);
  add("Conv_many_channels_strided", window({3, 3}, {2, 2}, {1, 1, 1, 1}),
      {activation({kBatch, 16, 9, 8}), parameter({16, 16, 3, 3})}, 2);
  add("Conv_many_channels_dilated", window({3, 2}, {1, 1}, {2, 0, 2, 0}, {2, 3}),
      {activation({kBatch, 11, 5, 6}), parameter({4, 11, 3, 2}), parameter({4})}, 2);
  add("Conv_many_channels_dilated_uneven_pads", window({3, 2}, {1, 1}, {2, 0, 1, 1}, {2, 3}),
      {activation({kBatch, 11, 5, 6}), parameter({4, 11, 3, 2}), parameter({4})}, 2);
  add("Conv_many_channels_in_groups",
      with(window({3, 3}, {1, 2}, {1, 1, 1, 1}), "group", int64_t{2}),
      {activation({kBatch, 16, 4, 5}), parameter({6, 8, 3, 3}), parameter({6})}, 2);
  cases.push_back({.name = "Conv_whose_first_windows_see_padding",
                   .op = "Conv",
                   .attributes = {{"pads", Ints{4, 1, 0, 3}}},
                   .inputs = {activation({kBatch, 2, 3, 4}), parameter({3, 2, 2, 2})},
                   .whole_axes = {"rows", "columns"}});
  add("Conv_of_a_pixel_of_many_channels", window({1, 1}, {2, 1}, {0, 0, 0, 0}),
      {activation({kBatch, 70, 3, 4}), parameter({5, 70, 1, 1}), parameter({5})}, 2);
  // No window comes of more padding behind.
  add("Conv_many_channels_strided_before_padding", window({3, 3}, {2, 2}, {1, 1, 0, 0}),
      {activation({kBatch, 8, 8, 6}), parameter({3, 8, 3, 3}), parameter({3})}, 2);
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
  add("MaxPool_of_many_channels", "MaxPool", window({3, 2}, {1, 2}, {1, 0, 0, 1}),
      {kBatch, 21, 4, 5}, Draw::kApart);
  add("MaxPool_large_window", "MaxPool", window({17, 17}, {1, 1}, {0, 0, 0, 0}),
      {kBatch, 2, 18, 17}, Draw::kApart);
  add("MaxPool_in_tiles_of_full_vectors", "MaxPool", two, {kBatch, 16, 4, 6}, Draw::kApart);
  add("AveragePool_in_tiles_of_full_vectors", "AveragePool", two, {kBatch, 8, 4, 6},
      Draw::kUniform);
  add("AveragePool_2x2", "AveragePool", two, {kBatch, 4, 6, 6}, Draw::kUniform);
  add("AveragePool_padded", "AveragePool", window({3, 2}, {2, 1}, {1, 1, 1, 0}), {kBatch, 3, 7, 5},
      Draw::kUniform);
  add("AveragePool_counting_padding", "AveragePool",
      with(with(window({3, 3}, {2, 2}, {1, 1, 1, 1}), "count_include_pad", int64_t{1}), "ceil_mode",
           int64_t{1}),
      {kBatch, 3, 6, 7}, Draw::kUniform);
}

}  // namespace

std::vector<OperatorCase> window_cases() {
  std::vector<OperatorCase> cases;
  add_conv_cases(cases);
  add_pool_cases(cases);
  return cases;
}

}  // namespace kerf::ops
