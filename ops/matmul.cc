#include "ops/matmul.h"

#include "ops/cpu/kernels.h"

namespace kerf::ops {
namespace {

class MatMul final : public Operator {
 public:
  std::string_view name() const override { return "MatMul"; }
  std::vector<std::string> input_names() const override { return {"A", "B"}; }
  int required_inputs() const override { return 2; }
  bool follows_input() const override { return false; }
  // B may be an activation: then its gradient is one of the input gradients, and reads A.
  Keeps keeps() const override { return {{0, 1}, {0}, {}}; }

  std::vector<ValueSpec> infer(const Attributes&,
                               std::span<const ValueSpec> inputs) const override {
    for (const auto& input : inputs)
      if (input.dtype != DType::kFloat32)
        throw Error(ErrorCode::kUsage,
                    format("MatMul wants float32, not {}", to_string(input.dtype)));
    const Shape& a = inputs[0].shape;
    const Shape& b = inputs[1].shape;
    const bool ranks = (b.rank() == 2 && (a.rank() == 2 || a.rank() == 3)) ||
                       (a.rank() == 3 && b.rank() == 3 && a[0] == b[0]);
    if (!ranks)
      throw Error(ErrorCode::kUsage,
                  format("MatMul multiplies [N, K] or [N, T, K] by [K, O], and [N, T, K] by "
                         "[N, K, O]; not {} by {}",
                         to_string(a), to_string(b)));
    const int64_t columns = b[b.rank() - 1];
    if (b.batched() != (b.rank() == 3 && a.batched()) || a[a.rank() - 1] != b[b.rank() - 2] ||
        columns < 1)
      throw Error(ErrorCode::kUsage,
                  format("MatMul cannot multiply {} by {}", to_string(a), to_string(b)));
    Shape y = a;
    y[y.rank() - 1] = columns;
    return {{DType::kFloat32, y}};
  }

  SplitRule split(const Attributes&, std::span<const ValueSpec> inputs, const ValueSpec& output,
                  const Box& wanted) const override {
    const Box box = normalized(wanted, output.shape);
    const IndexSet& columns = box.axes.back();
    SplitRule::Input a{box, !columns.is_all()};
    a.box.axes.back() = IndexSet::all();
    const bool own = inputs[1].shape.rank() == 3;  // a matrix per sample
    SplitRule::Input b;
    if (own) b.box.axes.push_back(box.axes[0]);
    b.box.axes.insert(b.box.axes.end(), {IndexSet::all(), columns});
    for (size_t axis = own ? 1 : 0; axis + 1 < box.axes.size(); ++axis)
      if (!box.axes[axis].is_all()) b.gradient_partial = true;
    return boxes({std::move(a), std::move(b)});
  }

  Cost cost(const Attributes&, std::span<const ValueSpec> inputs,
            std::span<const ValueSpec> outputs) const override {
    const Shape& a_shape = inputs[0].shape;
    const double a = static_cast<double>(a_shape.elements());
    const double b = static_cast<double>(inputs[1].shape.elements());
    const double y = static_cast<double>(outputs[0].shape.elements());
    const double flops = 2 * y * static_cast<double>(a_shape[a_shape.rank() - 1]);
    const double bytes = 4 * (a + b + y);
    return {flops, flops, flops, bytes, bytes, bytes};
  }

  std::unique_ptr<Kernel> make_kernel(const Attributes&, runtime::Device& device) const override {
    if (device.kind() != runtime::DeviceKind::kCpu) throw_no_kernel(name(), device);
    return cpu::make_matmul_kernel();
  }
};

}  // namespace

std::unique_ptr<const Operator> make_matmul() { return std::make_unique<MatMul>(); }

}  // namespace kerf::ops
