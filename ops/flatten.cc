#include "ops/flatten.h"

#include "ops/cpu/kernels.h"
#include "ops/refold.h"

namespace kerf::ops {
namespace {

class Flatten final : public Operator {
 public:
  std::string_view name() const override { return "Flatten"; }
  std::vector<std::string> input_names() const override { return {"input"}; }
  int required_inputs() const override { return 1; }
  std::vector<std::string> attribute_names() const override { return {"axis"}; }
  bool follows_input() const override { return true; }
  bool aliases() const override { return true; }
  Keeps keeps() const override { return {}; }

  std::vector<ValueSpec> infer(const Attributes& attributes,
                               std::span<const ValueSpec> inputs) const override {
    const Shape& shape = inputs[0].shape;
    int64_t axis = attribute_int(attributes, "axis", 1);
    if (axis < 0) axis += shape.rank();
    if (axis != 1 || shape.rank() < 1)
      throw Error(ErrorCode::kUsage,
                  format("Flatten of {} with axis {}: only axis 1 keeps the batch",
                         to_string(shape), attribute_int(attributes, "axis", 1)));
    int64_t features = 1;
    for (int i = 1; i < shape.rank(); ++i) features *= shape[i];
    return {{inputs[0].dtype, {shape[0], features}}};
  }

  SplitRule split(const Attributes&, std::span<const ValueSpec> inputs, const ValueSpec& output,
                  const Box& wanted) const override {
    if (auto box = refold(wanted, output.shape, inputs[0].shape)) return boxes({{*box, false}});
    return refuse(
        format("Flatten cannot give {} of {}: its elements are no box of the input {}; "
               "divide it by whole channels",
               to_string(wanted), to_string(output.shape), to_string(inputs[0].shape)));
  }

  Cost cost(const Attributes&, std::span<const ValueSpec>,
            std::span<const ValueSpec>) const override {
    return {};
  }

  std::unique_ptr<Kernel> make_kernel(const Attributes&, runtime::Device& device) const override {
    if (device.kind() != runtime::DeviceKind::kCpu) throw_no_kernel(name(), device);
    return cpu::make_alias_kernel();
  }
};

}  // namespace

std::unique_ptr<const Operator> make_flatten() { return std::make_unique<Flatten>(); }

}  // namespace kerf::ops
