#include "ops/operators/resize.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace kerf::ops {
namespace {

// Of all axes together: what they are made of is listed.
constexpr int64_t kMostTaps = int64_t{1} << 24;

// An axis as the node wants it.
struct Stretch {
  int64_t input = 0;
  int64_t output = 0;
  double scale = 1;
  double begin = 0;  // of what is cropped, as shares of the input
  double end = 1;
};

struct ResizeRule {
  std::string mode;
  std::string places;   // coordinate_transformation_mode
  std::string nearest;  // nearest_mode
  double cubic = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
};

std::string one_of(const Attributes& attributes, const std::string& name, const char* otherwise,
                   const std::vector<std::string>& known) {
  std::string value = attribute_string(attributes, name, otherwise);
  if (std::find(known.begin(), known.end(), value) == known.end())
    throw Error(ErrorCode::kUsage, format("Resize: {} '{}' is not supported; there are {}", name,
                                          value, fmt::join(known, ", ")));
  return value;
}

ResizeRule rule_of(const Attributes& attributes) {
  return {one_of(attributes, "mode", "nearest", {"nearest", "linear", "cubic"}),
          one_of(attributes, "coordinate_transformation_mode", "half_pixel",
                 {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                  "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"}),
          one_of(attributes, "nearest_mode", "round_prefer_floor",
                 {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}),
          attribute_float(attributes, "cubic_coeff_a", -0.75),
          attribute_int(attributes, "exclude_outside", 0) != 0,
          attribute_int(attributes, "antialias", 0) != 0};
}

// Where the aspect is kept, the scale of all axes: the least or the greatest that `sizes` ask for.
std::optional<double> common_scale(const Attributes& attributes, const Shape& x,
                                   const std::vector<int>& axes,
                                   const std::vector<int64_t>& sizes) {
  const auto policy = one_of(attributes, "keep_aspect_ratio_policy", "stretch",
                             {"stretch", "not_larger", "not_smaller"});
  std::optional<double> common;
  if (policy == "stretch") return common;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (x[axes[i]] < 1) continue;  // the batch is not resized
    const double own = static_cast<double>(sizes[i]) / static_cast<double>(x[axes[i]]);
    if (!common || (policy == "not_larger" ? own < *common : own > *common)) common = own;
  }
  return common;
}

std::vector<int> axes_of(const Attributes& attributes, int rank) {
  std::vector<int64_t> all(static_cast<size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  std::vector<int> axes;
  for (const int64_t axis : attribute_ints(attributes, "axes", all))
    axes.push_back(resolved_axis("Resize", axis, rank));
  return axes;
}

// By axis; those that keep their extent as they are.
std::vector<Stretch> stretches_of(const Attributes& attributes, const Shape& x) {
  std::vector<Stretch> result;
  for (const int64_t extent : x) result.push_back({extent, extent, 1});
  const std::vector<int> axes = axes_of(attributes, x.rank());
  const std::vector<double> scales = attribute_floats(attributes, "scales", {});
  const std::vector<int64_t> sizes = attribute_ints(attributes, "sizes", {});
  const std::vector<double> roi = attribute_floats(attributes, "roi", {});
  const bool crops =
      attribute_string(attributes, "coordinate_transformation_mode", "") == "tf_crop_and_resize";
  if (crops && roi.size() != 2 * axes.size())
    throw Error(ErrorCode::kUsage, format("Resize of {} axes wants a roi of {} numbers, not {}",
                                          axes.size(), 2 * axes.size(), roi.size()));
  if (sizes.size() != axes.size() && (!sizes.empty() || scales.size() != axes.size()))
    throw Error(ErrorCode::kUsage,
                format("Resize of {} axes wants as many scales or sizes, not {} and {}",
                       axes.size(), scales.size(), sizes.size()));
  const std::optional<double> common = common_scale(attributes, x, axes, sizes);
  for (size_t i = 0; i < axes.size(); ++i) {
    Stretch& stretch = result[static_cast<size_t>(axes[i])];
    if (stretch.input < 0) {
      if (sizes.empty() && scales[i] != 1)
        throw Error(ErrorCode::kUsage, "Resize cannot change the number of samples");
      continue;
    }
    const double input = static_cast<double>(stretch.input);
    const double wanted = common          ? std::floor(*common * input + 0.5)
                          : sizes.empty() ? scales[i] * input
                                          : static_cast<double>(sizes[i]);
    if (stretch.input < 1 || !(wanted >= 1 && wanted <= static_cast<double>(kMostTaps)))
      throw Error(ErrorCode::kUsage, format("Resize makes {} of axis {} of {}: from 1 to {}",
                                            wanted, axes[i], to_string(x), kMostTaps));
    stretch.output = static_cast<int64_t>(std::floor(wanted));
    if (crops) stretch.begin = roi[i];
    if (crops) stretch.end = roi[axes.size() + i];
    stretch.scale = common ? *common : sizes.empty() ? scales[i] : wanted / input;
  }
  return result;
}

// The place of output index `o` along the input's axis.
double place_of(const ResizeRule& rule, const Stretch& s, int64_t o) {
  const double at = static_cast<double>(o);
  const double in = static_cast<double>(s.input);
  const double out = static_cast<double>(s.output);
  if (rule.places == "asymmetric") return at / s.scale;
  if (rule.places == "align_corners") return s.output == 1 ? 0 : at * (in - 1) / (s.scale * in - 1);
  if (rule.places == "tf_crop_and_resize")
    return s.output == 1 ? (s.begin + s.end) / 2 * (in - 1)
                         : (s.begin + at * (s.end - s.begin) / (out - 1)) * (in - 1);
  if (rule.places == "pytorch_half_pixel" && s.output == 1) return 0;
  if (rule.places == "tf_half_pixel_for_nn") return (at + 0.5) / s.scale;
  const double half = (at + 0.5) / s.scale - 0.5;
  if (rule.places != "half_pixel_symmetric") return half;
  return in / 2 * (1 - out / (s.scale * in)) + half;
}

int64_t nearest_to(const ResizeRule& rule, double place) {
  if (rule.nearest == "floor") return static_cast<int64_t>(std::floor(place));
  if (rule.nearest == "ceil") return static_cast<int64_t>(std::ceil(place));
  return static_cast<int64_t>(rule.nearest == "round_prefer_floor" ? std::ceil(place - 0.5)
                                                                   : std::floor(place + 0.5));
}

// The weight of a neighbour at this distance.
double weight_at(const ResizeRule& rule, double distance) {
  const double d = std::abs(distance);
  if (rule.mode == "linear") return d < 1 ? 1 - d : 0;
  const double a = rule.cubic;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

double shrink_of(const ResizeRule& rule, const Stretch& s) {
  return rule.antialias ? std::min(s.scale, 1.0) : 1.0;
}

// How far off neighbours count.
double reach_of(const ResizeRule& rule, const Stretch& s) {
  return (rule.mode == "linear" ? 1 : 2) / shrink_of(rule, s);
}

bool changes(const Stretch& s) {
  return s.output != s.input || s.scale != 1 || s.begin != 0 || s.end != 1;
}

// Before anything is listed.
void check_taps(const ResizeRule& rule, const std::vector<Stretch>& stretches, const Shape& x) {
  double taps = 0;
  for (const Stretch& s : stretches)
    if (changes(s))
      taps += static_cast<double>(s.output) *
              (rule.mode == "nearest" ? 1 : 2 * std::ceil(reach_of(rule, s)));
  if (!(taps <= static_cast<double>(kMostTaps)))
    throw Error(ErrorCode::kUsage, format("Resize of {} adds up {} neighbours along its axes; at "
                                          "most {}: resize it by less, or in steps",
                                          to_string(x), taps, kMostTaps));
}

// Appends what output index `o` is made of.
void add_taps(const ResizeRule& rule, const Stretch& s, int64_t o, ResampledAxis& axis) {
  const double place = place_of(rule, s, o);
  const auto add = [&](int64_t index, double weight) {
    axis.indices.push_back(std::clamp<int64_t>(index, 0, s.input - 1));
    axis.weights.push_back(static_cast<float>(weight));
  };
  const bool cropped = rule.places == "tf_crop_and_resize";
  if (cropped && !(place >= 0 && place <= static_cast<double>(s.input - 1))) return;  // outside
  if (rule.mode == "nearest") return add(nearest_to(rule, place), 1);
  const double shrink = shrink_of(rule, s);
  const double reach = reach_of(rule, s);
  const auto base = static_cast<int64_t>(std::floor(place));
  const auto begin = base + static_cast<int64_t>(std::floor(-reach)) + 1;
  const auto end = base + static_cast<int64_t>(std::ceil(reach));
  const auto counts = [&](int64_t i) { return !rule.exclude_outside || (i >= 0 && i < s.input); };
  const auto weight = [&](int64_t i) {
    return counts(i) ? weight_at(rule, (static_cast<double>(i) - place) * shrink) : 0;
  };
  double sum = 0;
  for (int64_t i = begin; i <= end; ++i) sum += weight(i);
  const double norm = rule.antialias || rule.exclude_outside ? sum : 1;
  for (int64_t i = begin; i <= end; ++i)
    if (weight(i) != 0 || (rule.mode == "linear" && !rule.antialias && !rule.exclude_outside))
      add(i, weight(i) / norm);
}

}  // namespace

Resize::Resize(const NodeFacts& facts)
    : BoundOperator("Resize", facts),
      outside_(static_cast<float>(attribute_float(facts.attributes, "extrapolation_value", 0))) {
  want_float32("Resize", input(0), "X");
  const Shape& x = shape(0);
  const ResizeRule rule = rule_of(facts.attributes);
  const std::vector<Stretch> stretches = stretches_of(facts.attributes, x);
  check_taps(rule, stretches, x);
  space_.axes = axes_of_tensor(x);
  Shape y = x;
  std::vector<std::vector<int>> of_input;
  for (int i = 0; i < x.rank(); ++i) of_input.push_back({i});
  for (int i = x.rank(); i-- > 0;) {
    const Stretch& stretch = stretches[static_cast<size_t>(i)];
    if (!changes(stretch)) continue;
    y[i] = stretch.output;
    IterationAxis& axis = space_.axes[static_cast<size_t>(i)];
    axis.extent = stretch.output;
    axis.undivided = "its indices are seen through a scale";
    of_input[static_cast<size_t>(i)] = {};
    ResampledAxis resampled{i, stretch.input, stretch.output, {0}, {}, {}, 0};
    for (int64_t o = 0; o < stretch.output; ++o) {
      add_taps(rule, stretch, o, resampled);
      resampled.first.push_back(static_cast<int64_t>(resampled.indices.size()));
    }
    resampled.taps = resampled.first[1];
    for (int64_t o = 0; o < stretch.output; ++o)
      if (resampled.first[static_cast<size_t>(o) + 1] != (o + 1) * resampled.taps)
        resampled.taps = 0;
    resampled_.push_back(std::move(resampled));
  }
  space_.inputs = {operand_axes(of_input)};
  space_.outputs = {same_axes(x.rank())};
  outputs_ = {{DType::kFloat32, y}};
}

Cost Resize::cost(const LocalSpecs& local) const {
  const double x = static_cast<double>(local.inputs[0].shape.elements());
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  double flops = 0;
  for (const ResampledAxis& axis : resampled_)
    flops += 2 * y * static_cast<double>(axis.weights.size()) / static_cast<double>(axis.output);
  return {flops, flops, 0, 4 * (x + y), 4 * (x + y), 0};
}

OperatorDefinitions define_resize() {
  return {{.name = "Resize",
           .inputs = {{"X"}},
           .outputs = {{"Y"}},
           .attributes = {{"antialias"},
                          {"axes", AttributeType::kInts},
                          {"coordinate_transformation_mode", AttributeType::kString},
                          {"cubic_coeff_a", AttributeType::kFloat},
                          {"exclude_outside"},
                          {"extrapolation_value", AttributeType::kFloat},
                          {"keep_aspect_ratio_policy", AttributeType::kString},
                          {"mode", AttributeType::kString},
                          {"nearest_mode", AttributeType::kString},
                          {"roi", AttributeType::kFloats},
                          {"scales", AttributeType::kFloats},
                          {"sizes", AttributeType::kInts}},
           .input_attributes = {{"roi", 1, 11}, {"scales", 2, 11}, {"sizes", 3, 11}},
           .bind = bind_as<Resize>,
           .first_opset = 11}};  // before it, other places
}

}  // namespace kerf::ops
