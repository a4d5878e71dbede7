#include "ops/softmax.h"

#include "ops/cpu/kernels.h"

namespace kerf::ops {
namespace {

int axis_of(const Attributes& attributes, const Shape& shape) {
  const int64_t axis = attribute_int(attributes, "axis", -1);
  const int64_t resolved = axis < 0 ? axis + shape.rank() : axis;
  if (resolved < 1 || resolved >= shape.rank())
    throw Error(
        ErrorCode::kUsage,
        format("Softmax of {} along axis {}: axis must name one of 1 to {} (0 is the batch)",
               to_string(shape), axis, shape.rank() - 1));
  return static_cast<int>(resolved);
}

class Softmax final : public Operator {
 public:
  std::string_view name() const override { return "Softmax"; }
  std::vector<std::string> input_names() const override { return {"input"}; }
  int required_inputs() const override { return 1; }
  std::vector<std::string> attribute_names() const override { return {"axis"}; }
  bool follows_input() const override { return true; }
  Keeps keeps() const override { return {{}, {}, {0}}; }

  std::vector<ValueSpec> infer(const Attributes& attributes,
                               std::span<const ValueSpec> inputs) const override {
    if (inputs[0].dtype != DType::kFloat32)
      throw Error(ErrorCode::kUsage,
                  format("Softmax wants float32, not {}", to_string(inputs[0].dtype)));
    (void)axis_of(attributes, inputs[0].shape);
    return {inputs[0]};
  }

  SplitRule split(const Attributes& attributes, std::span<const ValueSpec>, const ValueSpec& output,
                  const Box& wanted) const override {
    const int axis = axis_of(attributes, output.shape);
    const Box box = normalized(wanted, output.shape);
    if (!box.axes[static_cast<size_t>(axis)].is_all())
      return gather(
          axis, format("Softmax sums along axis {}, which {} divides", axis, to_string(wanted)));
    return boxes({{box, false}});
  }

  Cost cost(const Attributes&, std::span<const ValueSpec>,
            std::span<const ValueSpec> outputs) const override {
    const double n = static_cast<double>(outputs[0].shape.elements());
    return {4 * n, 4 * n, 0, 8 * n, 12 * n, 0};
  }

  std::unique_ptr<Kernel> make_kernel(const Attributes& attributes,
                                      runtime::Device& device) const override {
    if (device.kind() != runtime::DeviceKind::kCpu) throw_no_kernel(name(), device);
    return cpu::make_softmax_kernel(attribute_int(attributes, "axis", -1));
  }
};

}  // namespace

std::unique_ptr<const Operator> make_softmax() { return std::make_unique<Softmax>(); }

}  // namespace kerf::ops
