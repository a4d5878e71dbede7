#include "ops/window.h"

#include <algorithm>

namespace kerf::ops {
namespace {

// Extents beyond this are a mistake, and would overflow products.
constexpr int64_t kMaxExtent = 1 << 20;

std::vector<int64_t> checked_list(std::string_view op, const Attributes& attributes,
                                  const std::string& name, size_t count, int64_t least,
                                  int64_t otherwise) {
  auto list = attribute_ints(attributes, name, std::vector<int64_t>(count, otherwise));
  const bool fine = list.size() == count && std::all_of(list.begin(), list.end(), [&](int64_t x) {
                      return x >= least && x <= kMaxExtent;
                    });
  if (!fine)
    throw Error(
        ErrorCode::kUsage,
        format("{}: attribute '{}' must be {} numbers from {} to {}, not [{}] (only two axes "
               "of space are supported)",
               op, name, count, least, kMaxExtent, fmt::join(list, ", ")));
  return list;
}

WindowOptions::AutoPad parse_auto_pad(std::string_view op, const std::string& name) {
  if (name == "NOTSET") return WindowOptions::AutoPad::kNotSet;
  if (name == "VALID") return WindowOptions::AutoPad::kValid;
  if (name == "SAME_UPPER") return WindowOptions::AutoPad::kSameUpper;
  if (name == "SAME_LOWER") return WindowOptions::AutoPad::kSameLower;
  throw Error(ErrorCode::kUsage,
              format("{}: auto_pad '{}' is not NOTSET, VALID, SAME_UPPER or SAME_LOWER", op, name));
}

void pad_to_same(const WindowOptions& options, size_t i, Window& window) {
  const int64_t reach = (options.kernel[i] - 1) * options.dilations[i] + 1;
  const int64_t steps = (window.input[i] + options.strides[i] - 1) / options.strides[i];
  const int64_t padding =
      std::max<int64_t>(0, (steps - 1) * options.strides[i] + reach - window.input[i]);
  const bool upper = options.auto_pad == WindowOptions::AutoPad::kSameUpper;
  window.pads_begin[i] = upper ? padding / 2 : padding - padding / 2;
  window.pads_end[i] = padding - window.pads_begin[i];
}

// How many windows start on an axis. With ceil_mode the last may hang over the end, but it must
// start within the input or its first padding.
int64_t windows_on_axis(const WindowOptions& options, const Window& window, size_t i) {
  const int64_t reach = (options.kernel[i] - 1) * options.dilations[i] + 1;
  const int64_t room = window.input[i] + window.pads_begin[i] + window.pads_end[i] - reach;
  if (room < 0) return 0;
  const int64_t stride = options.strides[i];
  int64_t count = (room + (options.ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (options.ceil_mode && (count - 1) * stride >= window.input[i] + window.pads_begin[i]) --count;
  return count;
}

}  // namespace

std::vector<FormalAttribute> window_attributes() {
  return {{"auto_pad", AttributeType::kString},
          {"dilations", AttributeType::kInts},
          {"kernel_shape", AttributeType::kInts},
          {"pads", AttributeType::kInts},
          {"strides", AttributeType::kInts}};
}

WindowOptions window_options(std::string_view op, const Attributes& attributes,
                             KernelShape kernel) {
  WindowOptions options;
  const bool absent = kernel == KernelShape::kFromWeights && !attributes.contains("kernel_shape");
  const auto shape =
      absent ? std::vector<int64_t>{0, 0} : checked_list(op, attributes, "kernel_shape", 2, 1, 0);
  const auto strides = checked_list(op, attributes, "strides", 2, 1, 1);
  const auto dilations = checked_list(op, attributes, "dilations", 2, 1, 1);
  const auto pads = checked_list(op, attributes, "pads", 4, 0, 0);
  for (size_t i = 0; i < 2; ++i) {
    options.kernel[i] = shape[i];
    options.strides[i] = strides[i];
    options.dilations[i] = dilations[i];
    options.pads_begin[i] = pads[i];
    options.pads_end[i] = pads[i + 2];
  }
  options.auto_pad = parse_auto_pad(op, attribute_string(attributes, "auto_pad", "NOTSET"));
  options.ceil_mode = attribute_int(attributes, "ceil_mode", 0) != 0;
  return options;
}

Window make_window(std::string_view op, const WindowOptions& options, const Extent2& input) {
  Window window{
      input,           {}, options.kernel, options.strides, options.dilations, options.pads_begin,
      options.pads_end};
  for (size_t i = 0; i < 2; ++i) {
    if (options.auto_pad == WindowOptions::AutoPad::kValid)
      window.pads_begin[i] = window.pads_end[i] = 0;
    else if (options.auto_pad != WindowOptions::AutoPad::kNotSet)
      pad_to_same(options, i, window);
    window.output[i] = windows_on_axis(options, window, i);
  }
  if (window.output[0] < 1 || window.output[1] < 1)
    throw Error(ErrorCode::kUsage,
                format("{}: a window of {}x{} does not fit into {}x{} with pads [{}, {}]", op,
                       options.kernel[0], options.kernel[1], input[0], input[1],
                       fmt::join(window.pads_begin, ", "), fmt::join(window.pads_end, ", ")));
  return window;
}

bool sees_input(const Window& window, size_t axis, int64_t o) {
  const int64_t first = o * window.strides[axis] - window.pads_begin[axis];
  if (first >= window.input[axis]) return false;
  const int64_t skipped =
      first < 0 ? (-first + window.dilations[axis] - 1) / window.dilations[axis] : 0;
  return skipped < window.kernel[axis] &&
         first + skipped * window.dilations[axis] < window.input[axis];
}

SlidingWindow sliding(const Window& window, size_t axis) {
  return {window.kernel[axis], window.strides[axis], window.dilations[axis],
          window.pads_begin[axis]};
}

Window local_window(const Window& whole, const IndexSet& rows, const IndexSet& columns) {
  Window local = whole;
  for (size_t i = 0; i < 2; ++i) {
    const IndexSet& outputs = i == 0 ? rows : columns;
    if (outputs.is_all()) continue;
    const IndexSet inputs = under_windows(sliding(whole, i), outputs, whole.input[i]);
    const Range out = outputs.ranges().front();
    const Range in = inputs.is_all() ? Range{0, whole.input[i]} : inputs.ranges().front();
    local.output[i] = out.size();
    local.input[i] = in.size();
    local.pads_begin[i] = in.begin - (out.begin * whole.strides[i] - whole.pads_begin[i]);
    const int64_t reach = (whole.kernel[i] - 1) * whole.dilations[i] + 1;
    local.pads_end[i] =
        (out.size() - 1) * whole.strides[i] + reach - local.pads_begin[i] - local.input[i];
  }
  return local;
}

}  // namespace kerf::ops
