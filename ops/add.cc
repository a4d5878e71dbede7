#include "ops/add.h"

#include <algorithm>

#include "ops/cpu/kernels.h"

namespace kerf::ops {
namespace {

// Whether `from` can be repeated over `to`; the batch is never repeated.
bool repeats_over(const Shape& from, const Shape& to) {
  if (from == to) return true;
  if (from.rank() > to.rank()) return false;
  const int shift = to.rank() - from.rank();
  for (int i = 0; i < from.rank(); ++i)
    if (from[i] != 1 && (from[i] != to[i + shift] || i + shift == 0)) return false;
  return true;
}

SplitRule::Input needed(const Shape& input, const Shape& output, const Box& wanted) {
  SplitRule::Input need;
  const int shift = output.rank() - input.rank();
  for (int axis = 0; axis < output.rank(); ++axis) {
    const IndexSet& set = wanted.axes[static_cast<size_t>(axis)];
    const bool repeated = axis < shift || (input[axis - shift] == 1 && output[axis] != 1);
    if (repeated && !set.is_all()) need.gradient_partial = true;
    if (axis >= shift) need.box.axes.push_back(repeated ? IndexSet::all() : set);
  }
  return need;
}

class Add final : public Operator {
 public:
  std::string_view name() const override { return "Add"; }
  std::vector<std::string> input_names() const override { return {"A", "B"}; }
  int required_inputs() const override { return 2; }
  bool follows_input() const override { return true; }
  Keeps keeps() const override { return {}; }

  std::vector<ValueSpec> infer(const Attributes&,
                               std::span<const ValueSpec> inputs) const override {
    for (const auto& input : inputs)
      if (input.dtype != DType::kFloat32)
        throw Error(ErrorCode::kUsage, format("Add wants float32, not {}", to_string(input.dtype)));
    const Shape& a = inputs[0].shape;
    const Shape& b = inputs[1].shape;
    if (repeats_over(b, a)) return {inputs[0]};
    if (repeats_over(a, b)) return {inputs[1]};
    throw Error(ErrorCode::kUsage,
                format("Add cannot add {} and {}: one must have the other's shape, or extents of 1 "
                       "where it is repeated (and no batch of its own)",
                       to_string(a), to_string(b)));
  }

  SplitRule split(const Attributes&, std::span<const ValueSpec> inputs, const ValueSpec& output,
                  const Box& wanted) const override {
    const Box box = normalized(wanted, output.shape);
    return boxes(
        {needed(inputs[0].shape, output.shape, box), needed(inputs[1].shape, output.shape, box)});
  }

  Cost cost(const Attributes&, std::span<const ValueSpec> inputs,
            std::span<const ValueSpec> outputs) const override {
    const double n = static_cast<double>(outputs[0].shape.elements());
    const double a = static_cast<double>(inputs[0].shape.elements());
    const double b = static_cast<double>(inputs[1].shape.elements());
    const double sums = inputs[0].shape == inputs[1].shape ? 0 : n;  // of the repeated input
    return {n, 0, sums, 4 * (n + a + b), 4 * (n + std::max(a, b)), 4 * (sums + std::min(a, b))};
  }

  std::unique_ptr<Kernel> make_kernel(const Attributes&, runtime::Device& device) const override {
    if (device.kind() != runtime::DeviceKind::kCpu) throw_no_kernel(name(), device);
    return cpu::make_add_kernel();
  }
};

}  // namespace

std::unique_ptr<const Operator> make_add() { return std::make_unique<Add>(); }

}  // namespace kerf::ops
