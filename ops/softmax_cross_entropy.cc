#include "ops/softmax_cross_entropy.h"

#include "ops/cpu/kernels.h"

namespace kerf::ops {
namespace {

class SoftmaxCrossEntropyLoss final : public Operator {
 public:
  std::string_view name() const override { return "SoftmaxCrossEntropyLoss"; }
  std::vector<std::string> input_names() const override { return {"scores", "labels"}; }
  int required_inputs() const override { return 2; }
  std::vector<std::string> attribute_names() const override { return {"reduction"}; }
  bool follows_input() const override { return false; }
  int feature_axis() const override { return -1; }
  bool is_loss() const override { return true; }
  Keeps keeps() const override { return {{0, 1}, {}, {}}; }

  std::vector<ValueSpec> infer(const Attributes& attributes,
                               std::span<const ValueSpec> inputs) const override {
    const auto reduction = attribute_string(attributes, "reduction", "mean");
    if (reduction != "mean")
      throw Error(ErrorCode::kUsage,
                  format("SoftmaxCrossEntropyLoss with reduction '{}': only 'mean' is supported",
                         reduction));
    const Shape& scores = inputs[0].shape;
    const Shape& labels = inputs[1].shape;
    if (inputs[0].dtype != DType::kFloat32 || inputs[1].dtype != DType::kInt64)
      throw Error(
          ErrorCode::kUsage,
          format("SoftmaxCrossEntropyLoss wants float32 scores and int64 labels, not {} and {}",
                 to_string(inputs[0].dtype), to_string(inputs[1].dtype)));
    if (scores.rank() != 2 || labels.rank() != 1 || scores[0] != labels[0] || scores[1] < 1)
      throw Error(
          ErrorCode::kUsage,
          format("SoftmaxCrossEntropyLoss wants scores [N, C] and labels [N], not {} and {}",
                 to_string(scores), to_string(labels)));
    return {{DType::kFloat32, Shape{}}};
  }

  SplitRule split(const Attributes&, std::span<const ValueSpec>, const ValueSpec&,
                  const Box&) const override {
    return boxes({{Box::whole(2), false}, {Box::whole(1), false}});
  }

  Cost cost(const Attributes&, std::span<const ValueSpec> inputs,
            std::span<const ValueSpec>) const override {
    const double n = static_cast<double>(inputs[0].shape.elements());
    const double rows = static_cast<double>(inputs[1].shape.elements());
    return {4 * n, 3 * n, 0, 4 * n + 12 * rows, 8 * n + 12 * rows, 0};
  }

  // Per row, the logarithm of the sum of exponentials: the gradient's denominators.
  size_t saved_bytes(const Attributes&, std::span<const ValueSpec> inputs) const override {
    return static_cast<size_t>(inputs[1].shape.elements()) * sizeof(float);
  }

  std::unique_ptr<Kernel> make_kernel(const Attributes&, runtime::Device& device) const override {
    if (device.kind() != runtime::DeviceKind::kCpu) throw_no_kernel(name(), device);
    return cpu::make_softmax_cross_entropy_kernel();
  }
};

}  // namespace

std::unique_ptr<const Operator> make_softmax_cross_entropy() {
  return std::make_unique<SoftmaxCrossEntropyLoss>();
}

}  // namespace kerf::ops
