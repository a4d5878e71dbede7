#include "ops/gemm.h"

#include "ops/cpu/kernels.h"

namespace kerf::ops {
namespace {

class Gemm final : public Operator {
 public:
  std::string_view name() const override { return "Gemm"; }
  std::vector<std::string> input_names() const override { return {"A", "B", "C"}; }
  int required_inputs() const override { return 2; }
  std::vector<std::string> attribute_names() const override {
    return {"alpha", "beta", "transA", "transB"};
  }
  bool follows_input() const override { return false; }
  Keeps keeps() const override { return {{0, 1}, {0}, {}}; }

  std::vector<ValueSpec> infer(const Attributes& attributes,
                               std::span<const ValueSpec> inputs) const override {
    const auto options = gemm_options(attributes);
    const Shape& a = inputs[0].shape;
    const Shape& b = inputs[1].shape;
    for (const auto& input : inputs)
      if (input.dtype != DType::kFloat32)
        throw Error(ErrorCode::kUsage,
                    format("Gemm wants float32, not {}", to_string(input.dtype)));
    if (a.rank() != 2 || b.rank() != 2)
      throw Error(ErrorCode::kUsage, format("Gemm wants A and B of rank 2, not A {} and B {}",
                                            to_string(a), to_string(b)));
    const int64_t inner = options.transpose_b ? b[1] : b[0];
    const int64_t columns = options.transpose_b ? b[0] : b[1];
    if (a[1] != inner || inner <= 0 || columns <= 0)
      throw Error(ErrorCode::kUsage,
                  format("Gemm cannot multiply A {} by B {}{}", to_string(a), to_string(b),
                         options.transpose_b ? " transposed" : ""));
    if (inputs.size() > 2) check_bias(inputs[2].shape, columns);
    return {{DType::kFloat32, {a[0], columns}}};
  }

  SplitRule split(const Attributes& attributes, std::span<const ValueSpec> inputs,
                  const ValueSpec& output, const Box& wanted) const override {
    const Box box = normalized(wanted, output.shape);
    const IndexSet& rows = box.axes[0];
    const IndexSet& columns = box.axes[1];
    const bool partial_weights = !rows.is_all();
    std::vector<SplitRule::Input> needs;
    needs.push_back({{{rows, IndexSet::all()}}, !columns.is_all()});
    needs.push_back({gemm_options(attributes).transpose_b ? Box{{columns, IndexSet::all()}}
                                                          : Box{{IndexSet::all(), columns}},
                     partial_weights});
    if (inputs.size() > 2)
      needs.push_back(
          {inputs[2].shape.rank() == 1 ? Box{{columns}} : Box{{IndexSet::all(), columns}},
           partial_weights});
    return boxes(std::move(needs));
  }

  Cost cost(const Attributes&, std::span<const ValueSpec> inputs,
            std::span<const ValueSpec> outputs) const override {
    const double a = static_cast<double>(inputs[0].shape.elements());
    const double b = static_cast<double>(inputs[1].shape.elements());
    const double y = static_cast<double>(outputs[0].shape.elements());
    const double c = inputs.size() > 2 ? static_cast<double>(inputs[2].shape.elements()) : 0;
    const double flops = 2 * y * static_cast<double>(inputs[0].shape[1]);
    const double bytes = 4 * (a + b + y);
    const double bias = c > 0 ? y : 0;
    return {flops + bias, flops, flops + bias, bytes + 4 * c, bytes, bytes + 4 * (c + bias)};
  }

  std::unique_ptr<Kernel> make_kernel(const Attributes& attributes,
                                      runtime::Device& device) const override {
    if (device.kind() != runtime::DeviceKind::kCpu) throw_no_kernel(name(), device);
    return cpu::make_gemm_kernel(gemm_options(attributes));
  }

 private:
  static void check_bias(const Shape& bias, int64_t columns) {
    const bool fits = (bias.rank() == 1 && bias[0] == columns) ||
                      (bias.rank() == 2 && bias[0] == 1 && bias[1] == columns);
    if (!fits)
      throw Error(ErrorCode::kUsage, format("Gemm wants C of shape [{}] or [1, {}], not {}",
                                            columns, columns, to_string(bias)));
  }
};

}  // namespace

GemmOptions gemm_options(const Attributes& attributes) {
  if (attribute_int(attributes, "transA", 0) != 0)
    throw Error(
        ErrorCode::kUsage,
        "Gemm with transA is not supported: axis 0 of A is the batch; transpose A beforehand");
  return {static_cast<float>(attribute_float(attributes, "alpha", 1)),
          static_cast<float>(attribute_float(attributes, "beta", 1)),
          attribute_int(attributes, "transB", 0) != 0};
}

std::unique_ptr<const Operator> make_gemm() { return std::make_unique<Gemm>(); }

}  // namespace kerf::ops
