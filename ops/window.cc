#include "ops/window.h"

#include <algorithm>

namespace kerf::ops {
namespace {

// Extents beyond this are a mistake, and would overflow products.
constexpr int64_t kMaxExtent = 1 << 20;

void pad_to_same(AutoPad how, AxisWindow& window) {
  const int64_t steps = (window.input + window.stride - 1) / window.stride;
  const int64_t padding =
      std::max<int64_t>(0, (steps - 1) * window.stride + window.reach() - window.input);
  window.pad_begin = how == AutoPad::kSameUpper ? padding / 2 : padding - padding / 2;
  window.pad_end = padding - window.pad_begin;
}

// How many windows start on an axis. With ceil_mode the last may hang over the end, but it must
// start within the input or its first padding.
int64_t windows_on(const AxisWindow& window, bool ceil_mode) {
  const int64_t room = window.input + window.pad_begin + window.pad_end - window.reach();
  if (room < 0) return 0;
  int64_t count = (room + (ceil_mode ? window.stride - 1 : 0)) / window.stride + 1;
  if (ceil_mode && (count - 1) * window.stride >= window.input + window.pad_begin) --count;
  return count;
}

std::vector<int64_t> kernel_of(std::string_view op, const Attributes& attributes, size_t axes,
                               const std::vector<int64_t>& of_weights) {
  if (of_weights.empty()) return window_numbers(op, attributes, "kernel_shape", axes, 1, 0);
  const auto said = attribute_ints(attributes, "kernel_shape", of_weights);
  if (said != of_weights)
    throw Error(ErrorCode::kUsage, format("{}: kernel_shape is [{}], but the weights' is [{}]", op,
                                          fmt::join(said, ", "), fmt::join(of_weights, ", ")));
  for (const int64_t extent : of_weights)
    if (extent < 1 || extent > kMaxExtent)
      throw Error(ErrorCode::kUsage, format("{}: weights have windows of [{}], not from 1 to {}",
                                            op, fmt::join(of_weights, ", "), kMaxExtent));
  return of_weights;
}

}  // namespace

void check_space(std::string_view op, int64_t extent, size_t axis) {
  if (extent < 0)
    throw Error(ErrorCode::kUsage, format("{}: axis {} is the batch, but its axes of space begin "
                                          "behind samples and channels: transpose it",
                                          op, axis));
  if (extent == 0) throw Error(ErrorCode::kUsage, format("{}: axis {} has no index", op, axis));
}

Window window_of(const std::vector<AxisWindow>& axes) {
  KERF_CHECK(!axes.empty() && axes.size() <= 3, "a window over {} axes", axes.size());
  const AxisWindow& columns = axes.back();
  const AxisWindow rows = axes.size() > 1 ? axes[axes.size() - 2] : AxisWindow{};
  return {{rows.input, columns.input},       {rows.output, columns.output},
          {rows.kernel, columns.kernel},     {rows.stride, columns.stride},
          {rows.dilation, columns.dilation}, {rows.pad_begin, columns.pad_begin},
          {rows.pad_end, columns.pad_end},   axes.size() > 2 ? axes[0] : AxisWindow{}};
}

std::vector<std::string> names_of_space(size_t axes) {
  const std::vector<std::string> all{"depth", "rows", "columns"};
  return {all.end() - static_cast<std::ptrdiff_t>(axes), all.end()};
}

std::vector<FormalAttribute> window_attributes() {
  return {{"auto_pad", AttributeType::kString},
          {"dilations", AttributeType::kInts},
          {"kernel_shape", AttributeType::kInts},
          {"pads", AttributeType::kInts},
          {"strides", AttributeType::kInts}};
}

AutoPad auto_pad_of(std::string_view op, const Attributes& attributes) {
  const std::string name = attribute_string(attributes, "auto_pad", "NOTSET");
  if (name == "NOTSET") return AutoPad::kNotSet;
  if (name == "VALID") return AutoPad::kValid;
  if (name == "SAME_UPPER") return AutoPad::kSameUpper;
  if (name == "SAME_LOWER") return AutoPad::kSameLower;
  throw Error(ErrorCode::kUsage,
              format("{}: auto_pad '{}' is not NOTSET, VALID, SAME_UPPER or SAME_LOWER", op, name));
}

std::vector<int64_t> window_numbers(std::string_view op, const Attributes& attributes,
                                    const std::string& name, size_t count, int64_t least,
                                    int64_t otherwise) {
  auto list = attribute_ints(attributes, name, std::vector<int64_t>(count, otherwise));
  const bool fine = list.size() == count && std::all_of(list.begin(), list.end(), [&](int64_t x) {
                      return x >= least && x <= kMaxExtent;
                    });
  if (!fine)
    throw Error(ErrorCode::kUsage,
                format("{}: attribute '{}' must be {} numbers from {} to {}, not [{}]", op, name,
                       count, least, kMaxExtent, fmt::join(list, ", ")));
  return list;
}

std::vector<AxisWindow> make_windows(std::string_view op, const Attributes& attributes,
                                     const std::vector<int64_t>& input,
                                     const std::vector<int64_t>& weights) {
  const size_t axes = input.size();
  const auto kernel = kernel_of(op, attributes, axes, weights);
  const auto strides = window_numbers(op, attributes, "strides", axes, 1, 1);
  const auto dilations = window_numbers(op, attributes, "dilations", axes, 1, 1);
  const auto pads = window_numbers(op, attributes, "pads", 2 * axes, 0, 0);
  const AutoPad auto_pad = auto_pad_of(op, attributes);
  const bool ceil_mode = attribute_int(attributes, "ceil_mode", 0) != 0;
  std::vector<AxisWindow> windows;
  for (size_t i = 0; i < axes; ++i) {
    check_space(op, input[i], i + 2);
    AxisWindow window{
        .input = input[i], .kernel = kernel[i], .stride = strides[i], .dilation = dilations[i]};
    if (auto_pad == AutoPad::kNotSet) {
      window.pad_begin = pads[i];
      window.pad_end = pads[axes + i];
    } else if (auto_pad != AutoPad::kValid) {
      pad_to_same(auto_pad, window);
    }
    window.output = windows_on(window, ceil_mode && auto_pad == AutoPad::kNotSet);
    if (window.output < 1)
      throw Error(
          ErrorCode::kUsage,
          format("{}: a window of {} does not fit into {} with pads {} and {} (axis {})", op,
                 window.reach(), window.input, window.pad_begin, window.pad_end, i + 2));
    windows.push_back(window);
  }
  return windows;
}

bool sees_input(const AxisWindow& window, int64_t o) {
  const int64_t first = o * window.stride - window.pad_begin;
  if (first >= window.input) return false;
  const int64_t skipped = first < 0 ? (-first + window.dilation - 1) / window.dilation : 0;
  return skipped < window.kernel && first + skipped * window.dilation < window.input;
}

// From window to window ever more of the input is seen, and from some on ever less: the first and
// the last tell of all, but where windows that begin before the input step over it.
int64_t blind_window(const AxisWindow& window) {
  if (!sees_input(window, 0)) return 0;
  if (window.dilation > window.input) {
    const int64_t before = (window.pad_begin + window.stride - 1) / window.stride;
    for (int64_t o = 1; o < std::min(before, window.output); ++o)
      if (!sees_input(window, o)) return o;
  }
  return sees_input(window, window.output - 1) ? -1 : window.output - 1;
}

SlidingWindow sliding(const AxisWindow& window) {
  return {window.kernel, window.stride, window.dilation, window.pad_begin};
}

AxisWindow local_window(const AxisWindow& whole, const IndexSet& outputs) {
  if (outputs.is_all()) return whole;
  const IndexSet inputs = under_windows(sliding(whole), outputs, whole.input);
  const Range out = outputs.ranges().front();
  const Range in = inputs.is_all() ? Range{0, whole.input} : inputs.ranges().front();
  AxisWindow local = whole;
  local.output = out.size();
  local.input = in.size();
  local.pad_begin = in.begin - (out.begin * whole.stride - whole.pad_begin);
  local.pad_end = (out.size() - 1) * whole.stride + whole.reach() - local.pad_begin - local.input;
  KERF_CHECK(local.pad_begin >= 0 && local.pad_end >= 0,
             "windows {} to {} see nothing of an axis of {}", out.begin, out.end, whole.input);
  return local;
}

Window local_window(const std::vector<AxisWindow>& whole, const Box& iterations) {
  std::vector<AxisWindow> local;
  const size_t before = iterations.axes.size() - whole.size();
  for (size_t i = 0; i < whole.size(); ++i)
    local.push_back(local_window(whole[i], iterations.axes[before + i]));
  return window_of(local);
}

}  // namespace kerf::ops
