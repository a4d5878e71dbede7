#include "ops/dropout.h"

#include "ops/cpu/kernels.h"

namespace kerf::ops {
namespace {

class Dropout final : public Operator {
 public:
  std::string_view name() const override { return "Dropout"; }
  std::vector<std::string> input_names() const override { return {"data", "ratio"}; }
  int required_inputs() const override { return 1; }
  std::vector<std::string> attribute_names() const override { return {"ratio"}; }
  bool follows_input() const override { return true; }
  Keeps keeps() const override { return {}; }

  std::vector<ValueSpec> infer(const Attributes& attributes,
                               std::span<const ValueSpec> inputs) const override {
    check_dropout_ratio(attribute_float(attributes, "ratio", 0.5));
    if (inputs[0].dtype != DType::kFloat32 || inputs[0].shape.rank() < 1)
      throw Error(ErrorCode::kUsage,
                  format("Dropout wants float32 with a batch axis, not {} {}",
                         to_string(inputs[0].dtype), to_string(inputs[0].shape)));
    if (inputs.size() > 1) check_ratio_input(attributes, inputs[1]);
    return {inputs[0]};
  }

  SplitRule split(const Attributes&, std::span<const ValueSpec> inputs, const ValueSpec&,
                  const Box& wanted) const override {
    std::vector<SplitRule::Input> needs{{wanted, false}};
    if (inputs.size() > 1) needs.push_back({Box::whole(inputs[1].shape.rank()), false});
    return boxes(std::move(needs));
  }

  Cost cost(const Attributes&, std::span<const ValueSpec>,
            std::span<const ValueSpec> outputs) const override {
    const double n = static_cast<double>(outputs[0].shape.elements());
    return {n, n, 0, 8 * n, 8 * n, 0};
  }

  // The ratio, as a double.
  size_t saved_bytes(const Attributes&, std::span<const ValueSpec>) const override {
    return sizeof(double);
  }

  std::unique_ptr<Kernel> make_kernel(const Attributes& attributes,
                                      runtime::Device& device) const override {
    if (device.kind() != runtime::DeviceKind::kCpu) throw_no_kernel(name(), device);
    return cpu::make_dropout_kernel(attribute_float(attributes, "ratio", 0.5));
  }

 private:
  static void check_ratio_input(const Attributes& attributes, const ValueSpec& ratio) {
    if (attributes.contains("ratio"))
      throw Error(ErrorCode::kUsage, "Dropout has its ratio twice: as attribute and as input");
    if (ratio.dtype != DType::kFloat32 || ratio.shape.batched() || ratio.shape.elements() != 1)
      throw Error(ErrorCode::kUsage, format("Dropout wants its ratio as one float32, not {} {}",
                                            to_string(ratio.dtype), to_string(ratio.shape)));
  }
};

}  // namespace

std::unique_ptr<const Operator> make_dropout() { return std::make_unique<Dropout>(); }

void check_dropout_ratio(double ratio) {
  if (!(ratio >= 0 && ratio < 1))
    throw Error(ErrorCode::kUsage, format("Dropout's ratio {} is not in [0, 1)", ratio));
}

}  // namespace kerf::ops
