// Cases of layers beyond images and products: lines and volumes, pools of every kind, normalisation
// across channels.
#include "tests/conformance/operator_case.h"

namespace kerf::ops {
namespace {

using Ints = std::vector<int64_t>;

void add_space_cases(std::vector<OperatorCase>& cases) {
  const auto conv = [&](std::string name, Attributes attributes, std::vector<CaseInput> inputs) {
    cases.push_back({.name = std::move(name),
                     .op = "Conv",
                     .attributes = std::move(attributes),
                     .inputs = std::move(inputs),
                     .samples = 2});
  };
  conv("Conv_of_lines", {{"pads", Ints{2, 1}}, {"strides", Ints{2}}},
       {activation({kBatch, 3, 11}), parameter({4, 3, 3}), parameter({4})});
  conv("Conv_of_lines_in_groups", {{"group", int64_t{2}}, {"dilations", Ints{2}}},
       {activation({kBatch, 4, 9}), parameter({6, 2, 3}), parameter({6})});
  conv("Conv_of_volumes", {{"pads", Ints{1, 0, 1, 0, 1, 1}}, {"strides", Ints{1, 2, 1}}},
       {activation({kBatch, 2, 4, 6, 5}), parameter({3, 2, 3, 2, 3}), parameter({3})});
  conv("Conv_of_volumes_in_groups", {{"group", int64_t{2}}, {"dilations", Ints{2, 1, 1}}},
       {activation({kBatch, 4, 5, 4, 3}), parameter({4, 2, 2, 3, 1})});
  const auto pool = [&](std::string name, std::string op, Attributes attributes, Shape x,
                        Draw draw = Draw::kUniform) {
    cases.push_back({.name = std::move(name),
                     .op = std::move(op),
                     .attributes = std::move(attributes),
                     .inputs = {activation(x, draw)},
                     .samples = 2,
                     .epsilon = draw == Draw::kApart ? 0.02 : 0.25});
  };
  pool("MaxPool_of_lines", "MaxPool", {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}},
       {kBatch, 3, 10}, Draw::kApart);
  pool("AveragePool_of_lines", "AveragePool",
       {{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}, {"count_include_pad", int64_t{1}}},
       {kBatch, 3, 10});
  pool("MaxPool_of_volumes", "MaxPool",
       {{"kernel_shape", Ints{2, 3, 2}},
        {"strides", Ints{1, 2, 2}},
        {"pads", Ints{0, 1, 0, 0, 1, 1}}},
       {kBatch, 2, 4, 5, 5}, Draw::kApart);
  const Attributes volumes{{"kernel_shape", Ints{3, 2, 3}},
                           {"pads", Ints{1, 0, 1, 1, 1, 1}},
                           {"strides", Ints{2, 2, 1}}};
  pool("AveragePool_of_volumes", "AveragePool", volumes, {kBatch, 2, 5, 5, 4});
  Attributes counting = volumes;
  counting["count_include_pad"] = int64_t{1};
  counting["ceil_mode"] = int64_t{1};
  pool("AveragePool_of_volumes_counting_padding", "AveragePool", counting, {kBatch, 2, 4, 6, 4});
}

CaseInput kept(const Shape& shape, Draw draw = Draw::kUniform) {
  return {{DType::kFloat32, shape}, Role::kFrozen, draw};
}

// A convolution with what may follow it, together and apart.
void add_fused_cases(std::vector<OperatorCase>& cases) {
  const auto image = [](const Shape& shape) { return numbers(DType::kFloat32, shape); };
  const auto add = [&](const std::string& name, Attributes attributes,
                       std::vector<CaseInput> inputs) {
    cases.push_back({.name = "FusedConv_" + name,
                     .op = "FusedConv",
                     .attributes = std::move(attributes),
                     .inputs = std::move(inputs),
                     .samples = 2,
                     .whole_axes = {"inputs"}});
  };
  const CaseInput none = absent();
  const Attribute relu = std::string("Relu");
  add("with_relu", {{"pads", Ints{1, 1, 1, 1}}, {"activation", relu}},
      {image({kBatch, 3, 5, 6}), kept({4, 3, 3, 3}), kept({4})});
  add("normalised", {{"strides", Ints{2, 1}}},
      {image({kBatch, 16, 7, 5}), kept({16, 16, 3, 3}), none, kept({16}), kept({16}), kept({16}),
       kept({16}, Draw::kPositive)});
  add("added_to", {},
      {image({kBatch, 16, 4, 5}), kept({32, 16, 1, 1}), kept({32}), none, none, none, none,
       image({kBatch, 32, 4, 5})});
  add("all_in_groups",
      {{"pads", Ints{0, 1, 1, 2}}, {"group", int64_t{2}}, {"epsilon", 0.25}, {"activation", relu}},
      {image({kBatch, 8, 5, 6}), kept({6, 4, 2, 3}), kept({6}), kept({6}), kept({6}), kept({6}),
       kept({6}, Draw::kPositive), image({kBatch, 6, 5, 7})});
}

void add_more_pool_cases(std::vector<OperatorCase>& cases) {
  cases.push_back({.name = "MaxPool_with_indices",
                   .op = "MaxPool",
                   .attributes = {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}},
                   .inputs = {activation({kBatch, 3, 4, 6}, Draw::kApart)},
                   .outputs = 2,
                   .epsilon = 0.02,
                   .whole_axes = {"samples", "channels", "rows", "columns"}});
  cases.push_back({.name = "LpPool",
                   .op = "LpPool",
                   .attributes = {{"kernel_shape", Ints{2, 3}}, {"strides", Ints{1, 2}}},
                   .inputs = {activation({kBatch, 2, 4, 7}, Draw::kApart)},
                   .epsilon = 0.01});
  cases.push_back(
      {.name = "LpPool_of_lines_of_power_3",
       .op = "LpPool",
       .attributes = {{"kernel_shape", Ints{3}}, {"p", int64_t{3}}, {"pads", Ints{1, 1}}},
       .inputs = {activation({kBatch, 2, 7}, Draw::kApart)},
       .epsilon = 0.01});
  for (const Shape& x : {Shape{kBatch, 5, 3, 4}, Shape{kBatch, 3, 7}}) {
    const std::string of = x.rank() == 3 ? "_of_lines" : "";
    cases.push_back(
        {.name = "GlobalAveragePool" + of, .op = "GlobalAveragePool", .inputs = {activation(x)}});
    std::vector<std::string> space{"axis 2"};
    if (x.rank() == 4) space.emplace_back("axis 3");
    cases.push_back({.name = "GlobalMaxPool" + of,
                     .op = "GlobalMaxPool",
                     .inputs = {activation(x, Draw::kApart)},
                     .epsilon = 0.02,
                     .whole_axes = space});
    cases.push_back({.name = "GlobalLpPool" + of,
                     .op = "GlobalLpPool",
                     .attributes = {{"p", int64_t{x.rank() == 4 ? 2 : 3}}},
                     .inputs = {activation(x, Draw::kApart)},
                     .epsilon = 0.01,
                     .whole_axes = space});
  }
}

void add_unpool_cases(std::vector<OperatorCase>& cases) {
  const CaseInput indices{{DType::kInt64, {kBatch, 2, 3, 4}}, Role::kInput, Draw::kSpread, 4};
  OperatorCase scene{.name = "MaxUnpool",
                     .op = "MaxUnpool",
                     .attributes = {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}},
                     .inputs = {activation({kBatch, 2, 3, 4}), indices},
                     .whole_axes = {"samples", "features", "axis 2", "axis 3"}};
  cases.push_back(scene);
  scene.name = "MaxUnpool_into_more";
  scene.attributes["output_shape"] = Ints{-1, 2, 7, 9};
  cases.push_back(scene);
}

void add_lrn_cases(std::vector<OperatorCase>& cases) {
  const auto lrn = [&](std::string name, Attributes attributes, Shape x) {
    attributes["alpha"] = 0.3;
    cases.push_back({.name = std::move(name),
                     .op = "LRN",
                     .attributes = std::move(attributes),
                     .inputs = {activation(x)},
                     .epsilon = 0.02});
  };
  lrn("LRN", {{"size", int64_t{3}}}, {kBatch, 7, 3, 4});
  cases.back().flops = {15 * 84, 16 * 84, 0};
  lrn("LRN_of_an_even_window", {{"size", int64_t{4}}, {"beta", 0.5}, {"bias", 2.0}},
      {kBatch, 5, 2, 3});
  lrn("LRN_wider_than_the_channels", {{"size", int64_t{9}}, {"beta", 0.6}}, {kBatch, 4, 5});
  lrn("LRN_of_more_than_a_block", {{"size", int64_t{5}}}, {kBatch, 3, 17, 17});
}

void add_transposed_cases(std::vector<OperatorCase>& cases) {
  const auto add = [&](const std::string& name, Attributes attributes,
                       std::vector<CaseInput> inputs) {
    cases.push_back({.name = "ConvTranspose_" + name,
                     .op = "ConvTranspose",
                     .attributes = std::move(attributes),
                     .inputs = std::move(inputs),
                     .samples = 2});
    const int rank = cases.back().inputs[0].spec.shape.rank();
    const std::vector<std::string> space{"depth", "rows", "columns"};
    cases.back().whole_axes.assign(space.end() - (rank - 2), space.end());
  };
  add("strided", {{"strides", Ints{2, 3}}, {"pads", Ints{1, 0, 1, 2}}},
      {activation({kBatch, 3, 4, 5}), parameter({3, 4, 3, 3}), parameter({4})});
  cases.back().flops = {2 * 60 * 36 + 364, 2 * 60 * 36, 2 * 60 * 36 + 364};
  add("in_groups", {{"group", int64_t{2}}, {"strides", Ints{2, 2}}, {"output_padding", Ints{1, 1}}},
      {activation({kBatch, 4, 3, 3}), parameter({4, 3, 2, 3}), parameter({6})});
  add("dilated", {{"dilations", Ints{2, 1}}, {"output_shape", Ints{7, 6}}},
      {activation({kBatch, 9, 4, 5}), parameter({9, 2, 3, 2}), absent()});
  add("of_the_same_extent", {{"auto_pad", "SAME_UPPER"}, {"strides", Ints{2, 2}}},
      {activation({kBatch, 2, 4, 3}), parameter({2, 8, 3, 3})});
  add("of_lines", {{"strides", Ints{2}}},
      {activation({kBatch, 3, 6}), parameter({3, 2, 4}), parameter({2})});
  add("of_volumes", {{"strides", Ints{1, 2, 1}}, {"pads", Ints{0, 1, 0, 1, 0, 0}}},
      {activation({kBatch, 2, 3, 3, 4}), parameter({2, 3, 2, 3, 2}), parameter({3})});
}

void add_normalized_cases(std::vector<OperatorCase>& cases) {
  const auto group = [&](std::string name, Shape x, int64_t groups,
                         std::vector<std::string> whole) {
    const bool instances = groups == 0;
    Attributes attributes{{"epsilon", 1e-2}};
    if (!instances) attributes["num_groups"] = groups;
    const Shape c{x[1]};
    cases.push_back(
        {.name = std::move(name),
         .op = instances ? "InstanceNormalization" : "GroupNormalization",
         .attributes = std::move(attributes),
         .inputs = {activation(x, Draw::kApart), parameter(c, Draw::kPositive), parameter(c)},
         .epsilon = 0.01,
         .whole_axes = std::move(whole)});
  };
  group("InstanceNormalization", {kBatch, 5, 3, 4}, 0, {"axis 2", "axis 3"});
  group("InstanceNormalization_of_lines", {kBatch, 3, 7}, 0, {"axis 2"});
  group("GroupNormalization", {kBatch, 6, 3, 2}, 3, {"channels of a group", "axis 2", "axis 3"});
  group("GroupNormalization_of_single_channels", {kBatch, 3, 5}, 3, {"axis 2"});
  cases.push_back(
      {.name = "RMSNormalization",
       .op = "RMSNormalization",
       .inputs = {activation({kBatch, 3, 6}, Draw::kApart), parameter({6}, Draw::kPositive)},
       .epsilon = 0.01,
       .whole_axes = {"features"}});
  cases.push_back({.name = "RMSNormalization_of_two_axes",
                   .op = "RMSNormalization",
                   .attributes = {{"axis", int64_t{1}}, {"epsilon", 0.3}},
                   .inputs = {activation({kBatch, 4, 3}), parameter({4, 3})},
                   .epsilon = 0.01,
                   .whole_axes = {"axis 1", "features"}});
}

void add_resize_cases(std::vector<OperatorCase>& cases) {
  using Floats = std::vector<double>;
  const auto add = [&](const std::string& name, Attributes attributes, Shape x,
                       std::vector<std::string> whole) {
    cases.push_back({.name = "Resize_" + name,
                     .op = "Resize",
                     .attributes = std::move(attributes),
                     .inputs = {activation(x)},
                     .samples = 2,
                     .whole_axes = std::move(whole)});
  };
  const std::vector<std::string> space{"axis 2", "axis 3"};
  add("nearest_by_scales", {{"scales", Floats{1, 1, 2, 1.5}}}, {kBatch, 2, 3, 4}, space);
  add("nearest_to_sizes",
      {{"sizes", Ints{5, 3}},
       {"axes", Ints{2, 3}},
       {"nearest_mode", "floor"},
       {"coordinate_transformation_mode", "asymmetric"}},
      {kBatch, 2, 7, 4}, space);
  add("linear", {{"mode", "linear"}, {"scales", Floats{1, 1, 2, 0.6}}}, {kBatch, 2, 3, 5}, space);
  add("linear_between_corners",
      {{"mode", "linear"},
       {"sizes", Ints{1, 2, 7}},
       {"coordinate_transformation_mode", "align_corners"}},
      {kBatch, 2, 4}, {"features"});
  add("cubic",
      {{"mode", "cubic"}, {"scales", Floats{1, 1, 1.7, 2}}, {"exclude_outside", int64_t{1}}},
      {kBatch, 2, 5, 4}, space);
  add("antialiased",
      {{"mode", "linear"}, {"scales", Floats{1, 1, 0.4, 0.5}}, {"antialias", int64_t{1}}},
      {kBatch, 2, 8, 6}, space);
  add("of_a_crop",
      {{"mode", "linear"},
       {"sizes", Ints{3, 4}},
       {"axes", Ints{2, 3}},
       {"roi", Floats{-0.2, 0.1, 0.7, 1.3}},
       {"extrapolation_value", 0.5},
       {"coordinate_transformation_mode", "tf_crop_and_resize"}},
      {kBatch, 2, 5, 4}, space);
  add("keeping_the_aspect",
      {{"mode", "linear"},
       {"sizes", Ints{3, 5}},
       {"axes", Ints{2, 3}},
       {"keep_aspect_ratio_policy", "not_larger"}},
      {kBatch, 2, 5, 10}, space);
  add("of_nothing", {{"scales", Floats{1, 1, 1}}}, {kBatch, 2, 3}, {});
}

void add_norm_cases(std::vector<OperatorCase>& cases) {
  const auto add = [&](std::string name, std::string op, Attributes attributes, Shape x,
                       std::vector<std::string> whole) {
    cases.push_back({.name = std::move(name),
                     .op = std::move(op),
                     .attributes = std::move(attributes),
                     .inputs = {activation(x, Draw::kApart)},
                     .epsilon = 0.005,
                     .whole_axes = std::move(whole)});
  };
  add("LpNormalization", "LpNormalization", {{"axis", int64_t{1}}}, {kBatch, 4, 3}, {"axis 1"});
  add("LpNormalization_of_absolutes", "LpNormalization", {{"p", int64_t{1}}}, {kBatch, 5},
      {"features"});
  add("MeanVarianceNormalization", "MeanVarianceNormalization", {}, {3, 3, 2, 3},
      {"axis 0", "axis 2", "axis 3"});
  add("MeanVarianceNormalization_of_pixels", "MeanVarianceNormalization", {{"axes", Ints{2, 3}}},
      {kBatch, 2, 2, 3}, {"axis 2", "axis 3"});
  add("MeanVarianceNormalization_of_rows", "MeanVarianceNormalization", {{"axes", Ints{-1}}},
      {kBatch, 2, 5}, {"features"});
}

}  // namespace

std::vector<OperatorCase> layer_cases() {
  std::vector<OperatorCase> cases;
  add_space_cases(cases);
  add_fused_cases(cases);
  add_more_pool_cases(cases);
  add_lrn_cases(cases);
  add_unpool_cases(cases);
  add_transposed_cases(cases);
  add_normalized_cases(cases);
  add_resize_cases(cases);
  add_norm_cases(cases);
  return cases;
}

}  // namespace kerf::ops
