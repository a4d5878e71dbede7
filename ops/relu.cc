#include "ops/relu.h"

#include "ops/cpu/kernels.h"

namespace kerf::ops {
namespace {

class Relu final : public Operator {
 public:
  std::string_view name() const override { return "Relu"; }
  std::vector<std::string> input_names() const override { return {"X"}; }
  int required_inputs() const override { return 1; }
  bool follows_input() const override { return true; }
  Keeps keeps() const override { return {{}, {}, {0}}; }

  std::vector<ValueSpec> infer(const Attributes&,
                               std::span<const ValueSpec> inputs) const override {
    if (inputs[0].dtype != DType::kFloat32)
      throw Error(ErrorCode::kUsage,
                  format("Relu wants float32, not {}", to_string(inputs[0].dtype)));
    return {inputs[0]};
  }

  SplitRule split(const Attributes&, std::span<const ValueSpec>, const ValueSpec&,
                  const Box& wanted) const override {
    return boxes({{wanted, false}});
  }

  Cost cost(const Attributes&, std::span<const ValueSpec>,
            std::span<const ValueSpec> outputs) const override {
    const double n = static_cast<double>(outputs[0].shape.elements());
    return {n, n, 0, 8 * n, 12 * n, 0};
  }

  std::unique_ptr<Kernel> make_kernel(const Attributes&, runtime::Device& device) const override {
    if (device.kind() != runtime::DeviceKind::kCpu) throw_no_kernel(name(), device);
    return cpu::make_relu_kernel();
  }
};

}  // namespace

std::unique_ptr<const Operator> make_relu() { return std::make_unique<Relu>(); }

}  // namespace kerf::ops
