#include "ops/conv.h"

#include <optional>

#include "ops/cpu/kernels.h"

namespace kerf::ops {
namespace {

void check_shapes(std::span<const ValueSpec> inputs, int64_t groups) {
  for (const auto& input : inputs)
    if (input.dtype != DType::kFloat32)
      throw Error(ErrorCode::kUsage, format("Conv wants float32, not {}", to_string(input.dtype)));
  const Shape& x = inputs[0].shape;
  const Shape& w = inputs[1].shape;
  if (x.rank() != 4 || w.rank() != 4)
    throw Error(ErrorCode::kUsage,
                format("Conv wants X [N, C, H, W] and W [O, C/group, kh, kw], not {} and {}; other "
                       "numbers of axes are not supported",
                       to_string(x), to_string(w)));
  if (groups < 1 || w[1] < 1 || x[1] != w[1] * groups || w[0] < 1 || w[0] % groups != 0)
    throw Error(ErrorCode::kUsage, format("Conv with group {} cannot apply W {} to X {}", groups,
                                          to_string(w), to_string(x)));
  if (inputs.size() > 2 && !(inputs[2].shape == Shape{w[0]}))
    throw Error(ErrorCode::kUsage,
                format("Conv wants B of shape [{}], not {}", w[0], to_string(inputs[2].shape)));
}

// The channels of X that these output channels read: all of their groups'. Empty where a group is
// divided.
std::optional<IndexSet> channels_of(const IndexSet& outputs, const Shape& weights, int64_t groups) {
  if (groups == 1) return IndexSet::all();
  const int64_t per_group = weights[0] / groups;
  std::vector<Range> inputs;
  for (const Range& range : outputs.ranges(weights[0])) {
    if (range.begin % per_group != 0 || range.end % per_group != 0) return std::nullopt;
    inputs.push_back({range.begin / per_group * weights[1], range.end / per_group * weights[1]});
  }
  return IndexSet(std::move(inputs)).normalized(weights[1] * groups);
}

class Conv final : public Operator {
 public:
  std::string_view name() const override { return "Conv"; }
  std::vector<std::string> input_names() const override { return {"X", "W", "B"}; }
  int required_inputs() const override { return 2; }
  std::vector<std::string> attribute_names() const override {
    auto names = window_attribute_names();
    names.push_back("group");
    return names;
  }
  bool follows_input() const override { return false; }
  Keeps keeps() const override { return {{1}, {0}, {}}; }

  std::vector<ValueSpec> infer(const Attributes& attributes,
                               std::span<const ValueSpec> inputs) const override {
    check_shapes(inputs, attribute_int(attributes, "group", 1));
    const Shape& x = inputs[0].shape;
    const Shape& w = inputs[1].shape;
    const Window window =
        conv_window(window_options("Conv", attributes, KernelShape::kFromWeights), x, w);
    return {{DType::kFloat32, {x[0], w[0], window.output[0], window.output[1]}}};
  }

  SplitRule split(const Attributes& attributes, std::span<const ValueSpec> inputs,
                  const ValueSpec& output, const Box& wanted) const override {
    SplitRule by_channel = split_by_channel("Conv", wanted, output);
    if (by_channel.kind != SplitRule::Kind::kBoxes) return by_channel;
    const Box box = normalized(wanted, output.shape);
    const IndexSet& outputs = box.axes[1];
    const int64_t groups = attribute_int(attributes, "group", 1);
    const auto channels = channels_of(outputs, inputs[1].shape, groups);
    if (!channels)
      return refuse(format("Conv with {} groups cannot give {}: it divides a group of {} channels",
                           groups, to_string(wanted), inputs[1].shape[0] / groups));
    const bool partial_weights = !box.axes[0].is_all();
    Box x = Box::whole(4);
    x.axes[0] = box.axes[0];
    x.axes[1] = *channels;
    Box w = Box::whole(4);
    w.axes[0] = outputs;
    std::vector<SplitRule::Input> needs{{x, groups == 1 && !outputs.is_all()},
                                        {w, partial_weights}};
    if (inputs.size() > 2) needs.push_back({{{outputs}}, partial_weights});
    return boxes(std::move(needs));
  }

  Cost cost(const Attributes&, std::span<const ValueSpec> inputs,
            std::span<const ValueSpec> outputs) const override {
    const Shape& weights = inputs[1].shape;
    const double x = static_cast<double>(inputs[0].shape.elements());
    const double w = static_cast<double>(weights.elements());
    const double y = static_cast<double>(outputs[0].shape.elements());
    const double flops = 2 * y * static_cast<double>(weights[1] * weights[2] * weights[3]);
    const double bias = inputs.size() > 2 ? y : 0;
    const double bytes = 4 * (x + w + y);
    return {flops + bias, flops, flops + bias, bytes, bytes, bytes + 4 * bias};
  }

  size_t workspace_bytes(const Attributes& attributes, std::span<const ValueSpec> inputs,
                         int threads) const override {
    return cpu::conv_workspace_bytes(window_options("Conv", attributes, KernelShape::kFromWeights),
                                     inputs, threads);
  }

  std::unique_ptr<Kernel> make_kernel(const Attributes& attributes,
                                      runtime::Device& device) const override {
    if (device.kind() != runtime::DeviceKind::kCpu) throw_no_kernel(name(), device);
    return cpu::make_conv_kernel(window_options("Conv", attributes, KernelShape::kFromWeights),
                                 device);
  }
};

}  // namespace

Window conv_window(const WindowOptions& options, const Shape& x, const Shape& weights) {
  WindowOptions complete = options;
  const Extent2 kernel{weights[2], weights[3]};
  if (options.kernel != Extent2{} && options.kernel != kernel)
    throw Error(ErrorCode::kUsage,
                format("Conv: kernel_shape is {}x{}, but W is {}", options.kernel[0],
                       options.kernel[1], to_string(weights)));
  complete.kernel = kernel;
  return make_window("Conv", complete, {x[2], x[3]});
}

std::unique_ptr<const Operator> make_conv() { return std::make_unique<Conv>(); }

}  // namespace kerf::ops
