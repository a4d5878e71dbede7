#include "ops/pool.h"

#include "ops/cpu/kernels.h"

namespace kerf::ops {
namespace {

// Whether any entry of window `o` of an axis lies on the input.
bool sees_input(const Window& window, size_t i, int64_t o) {
  for (int64_t k = 0; k < window.kernel[i]; ++k) {
    const int64_t at = o * window.strides[i] - window.pads_begin[i] + k * window.dilations[i];
    if (at >= 0 && at < window.input[i]) return true;
  }
  return false;
}

class Pool : public Operator {
 public:
  std::vector<std::string> input_names() const override { return {"X"}; }
  int required_inputs() const override { return 1; }
  bool follows_input() const override { return true; }
  Keeps keeps() const override { return {}; }

  std::vector<ValueSpec> infer(const Attributes& attributes,
                               std::span<const ValueSpec> inputs) const override {
    const Shape& x = inputs[0].shape;
    if (inputs[0].dtype != DType::kFloat32 || x.rank() != 4)
      throw Error(ErrorCode::kUsage, format("{} wants float32 [N, C, H, W], not {} {}", name(),
                                            to_string(inputs[0].dtype), to_string(x)));
    const WindowOptions options = checked_options(attributes);
    const Window window = make_window(name(), options, {x[2], x[3]});
    for (size_t i = 0; i < 2; ++i)
      for (int64_t o = 0; o < window.output[i]; ++o)
        if (!sees_input(window, i, o))
          throw Error(ErrorCode::kUsage,
                      format("{}: window {} of axis {} sees only padding; make pads smaller",
                             name(), o, i + 2));
    return {{DType::kFloat32, {x[0], x[1], window.output[0], window.output[1]}}};
  }

  SplitRule split(const Attributes&, std::span<const ValueSpec>, const ValueSpec& output,
                  const Box& wanted) const override {
    return split_by_channel(name(), wanted, output);
  }

  Cost cost(const Attributes& attributes, std::span<const ValueSpec> inputs,
            std::span<const ValueSpec> outputs) const override {
    const WindowOptions options = checked_options(attributes);
    const double x = static_cast<double>(inputs[0].shape.elements());
    const double y = static_cast<double>(outputs[0].shape.elements());
    const double flops = y * static_cast<double>(options.kernel[0] * options.kernel[1]);
    return {flops, flops, 0, 4 * (x + y), 4 * (x + y), 0};
  }

 protected:
  virtual WindowOptions checked_options(const Attributes& attributes) const {
    return window_options(name(), attributes);
  }
};

class MaxPool final : public Pool {
 public:
  std::string_view name() const override { return "MaxPool"; }
  std::vector<std::string> attribute_names() const override {
    auto names = window_attribute_names();
    names.insert(names.end(), {"ceil_mode", "storage_order"});
    return names;
  }

  size_t saved_bytes(const Attributes& attributes,
                     std::span<const ValueSpec> inputs) const override {
    const auto options = checked_options(attributes);
    const auto output = infer(attributes, inputs)[0].shape.elements();
    return static_cast<size_t>(output * max_pool_index_bytes(options));
  }

  std::unique_ptr<Kernel> make_kernel(const Attributes& attributes,
                                      runtime::Device& device) const override {
    if (device.kind() != runtime::DeviceKind::kCpu) throw_no_kernel(name(), device);
    return cpu::make_max_pool_kernel(checked_options(attributes));
  }
};

class AveragePool final : public Pool {
 public:
  std::string_view name() const override { return "AveragePool"; }
  std::vector<std::string> attribute_names() const override {
    auto names = window_attribute_names();
    names.insert(names.end(), {"ceil_mode", "count_include_pad"});
    return names;
  }

  std::unique_ptr<Kernel> make_kernel(const Attributes& attributes,
                                      runtime::Device& device) const override {
    if (device.kind() != runtime::DeviceKind::kCpu) throw_no_kernel(name(), device);
    return cpu::make_average_pool_kernel(checked_options(attributes),
                                         attribute_int(attributes, "count_include_pad", 0) != 0);
  }
};

}  // namespace

int64_t max_pool_index_bytes(const WindowOptions& options) {
  return options.kernel[0] * options.kernel[1] <= 256 ? 1 : 4;
}

std::unique_ptr<const Operator> make_max_pool() { return std::make_unique<MaxPool>(); }
std::unique_ptr<const Operator> make_average_pool() { return std::make_unique<AveragePool>(); }

}  // namespace kerf::ops
