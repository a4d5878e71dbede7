#include "ops/reshape.h"

#include "ops/alias.h"

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

class Reshape final : public AliasOperator {
 public:
  std::string_view name() const override { return "Reshape"; }
  std::vector<std::string> input_names() const override { return {"data"}; }
  std::vector<std::string> attribute_names() const override { return {"shape"}; }

  std::vector<ValueSpec> infer(const Attributes& attributes,
                               std::span<const ValueSpec> inputs) const override {
    return {{inputs[0].dtype, resolve(attribute_ints(attributes, "shape", {}), inputs[0].shape)}};
  }
};

}  // namespace

std::unique_ptr<const Operator> make_reshape() { return std::make_unique<Reshape>(); }

}  // namespace kerf::ops
