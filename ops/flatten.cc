#include "ops/flatten.h"

#include "ops/alias.h"

namespace kerf::ops {
namespace {

class Flatten final : public AliasOperator {
 public:
  std::string_view name() const override { return "Flatten"; }
  std::vector<std::string> input_names() const override { return {"input"}; }
  std::vector<std::string> attribute_names() const override { return {"axis"}; }

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
};

}  // namespace

std::unique_ptr<const Operator> make_flatten() { return std::make_unique<Flatten>(); }

}  // namespace kerf::ops
