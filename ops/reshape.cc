#include "ops/reshape.h"

#include "ops/cpu/kernels.h"
#include "ops/refold.h"

namespace kerf::ops {
namespace {

int64_t elements_of_sample(const Shape& shape) {
  int64_t product = 1;
  for (int i = 1; i < shape.rank(); ++i) product *= shape[i];
  return product;
}

// The extents after axis 0, with 0 and -1 resolved against the input.
Shape resolve(const std::vector<int64_t>& wanted, const Shape& input) {
  const auto fail = [&](const std::string& why) -> Error {
    return Error(ErrorCode::kUsage, format("Reshape of {} to [{}]: {}", to_string(input),
                                           fmt::join(wanted, ", "), why));
  };
  if (input.rank() < 1 || wanted.empty() || wanted.size() > static_cast<size_t>(Shape::kMaxRank))
    throw fail(format("wants 1 to {} axes", Shape::kMaxRank));
  if (wanted[0] != 0 && wanted[0] != -1 && wanted[0] != input[0])
    throw fail("axis 0 is the batch and must stay: write 0 or -1 there");
  std::vector<int64_t> extents{input[0]};
  int inferred = 0;
  int64_t known = 1;
  for (size_t i = 1; i < wanted.size(); ++i) {
    int64_t extent = wanted[i];
    if (extent == 0) {
      if (static_cast<int>(i) >= input.rank()) throw fail(format("axis {} has nothing to copy", i));
      extent = input[static_cast<int>(i)];
    }
    if (extent < -1) throw fail(format("axis {} is {}", i, extent));
    if (extent == -1 && ++inferred + (wanted[0] == -1 ? 1 : 0) > 1)
      throw fail("only one axis can be -1");
    if (extent > 0 && __builtin_mul_overflow(known, extent, &known)) throw fail("it is too large");
    extents.push_back(extent);
  }
  const int64_t features = elements_of_sample(input);
  for (auto& extent : std::span(extents).subspan(1))
    if (extent == -1) extent = known > 0 && features % known == 0 ? features / known : 0;
  const Shape shape(extents);
  if (elements_of_sample(shape) != features)
    throw fail(format("a sample has {} elements", features));
  return shape;
}

class Reshape final : public Operator {
 public:
  std::string_view name() const override { return "Reshape"; }
  std::vector<std::string> input_names() const override { return {"data"}; }
  int required_inputs() const override { return 1; }
  std::vector<std::string> attribute_names() const override { return {"shape"}; }
  bool follows_input() const override { return true; }
  bool aliases() const override { return true; }
  Keeps keeps() const override { return {}; }

  std::vector<ValueSpec> infer(const Attributes& attributes,
                               std::span<const ValueSpec> inputs) const override {
    return {{inputs[0].dtype, resolve(attribute_ints(attributes, "shape", {}), inputs[0].shape)}};
  }

  SplitRule split(const Attributes&, std::span<const ValueSpec> inputs, const ValueSpec& output,
                  const Box& wanted) const override {
    if (auto box = refold(wanted, output.shape, inputs[0].shape)) return boxes({{*box, false}});
    return refuse(format("Reshape cannot give {} of {}: its elements are no box of the input {}",
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

std::unique_ptr<const Operator> make_reshape() { return std::make_unique<Reshape>(); }

}  // namespace kerf::ops
