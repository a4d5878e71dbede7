// Reshape (ONNX, opset 14, shape as an attribute) and Flatten (opset 13): the input read with
// another shape.
//
// Of Reshape's `shape`, 0 copies the input's extent and one -1 is inferred; the batch goes where a
// 0 copies it, else where -1 stands: [N, T, D] to [-1, D] has T * N rows. With `allowzero` 0 is an
// extent, which a shape without a batch may have. Their iterations are the axes that both shapes
// have in common (ops/common_axes.h); what would divide between them is refused.
#include <optional>

#include "ops/common_axes.h"
#include "ops/operators/alias.h"

namespace kerf::ops {
namespace {

// Extents with 0 and -1 resolved against the input.
class Resolver {
 public:
  Resolver(const std::vector<int64_t>& wanted, const Shape& input, bool zeros)
      : wanted_(wanted), input_(input), zeros_(zeros) {}

  Shape resolve() {
    if (wanted_.size() > static_cast<size_t>(Shape::kMaxRank))
      fail(format("wants {} axes at most", Shape::kMaxRank));
    if (zeros_ && input_.batched()) fail("allowzero is for shapes without a batch");
    std::optional<size_t> inferred;
    int64_t known = 1;
    bool batch = !input_.batched();  // whether it has its place
    std::vector<int64_t> extents;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      extents.push_back(extent_of(i));
      if (extents[i] == 0 && input_.elements_per_sample() != 0) fail("an extent is 0");
      if (wanted_[i] == -1) {
        if (inferred) fail("only one axis can be -1");
        inferred = i;
        continue;
      }
      batch = batch || extents[i] < 0;
      if (__builtin_mul_overflow(known, std::abs(extents[i]), &known)) fail("it is too large");
    }
    if (!batch && !inferred) fail("the batch has no place: write 0 or -1 there");
    const int64_t elements = input_.elements_per_sample();
    if (inferred && known == 0) fail("nothing follows for -1 beside an extent of 0");
    if (inferred) extents[*inferred] = elements % known == 0 ? elements / known : 0;
    if (inferred && !batch) extents[*inferred] = -extents[*inferred];
    const Shape shape(extents);
    if (shape.elements_per_sample() != elements) fail(format("a sample has {} elements", elements));
    return shape;
  }

 private:
  int64_t extent_of(size_t i) const {
    if (wanted_[i] < -1) fail(format("axis {} is {}", i, wanted_[i]));
    if (wanted_[i] != 0 || zeros_) return wanted_[i];
    if (static_cast<int>(i) >= input_.rank()) fail(format("axis {} has nothing to copy", i));
    return input_[static_cast<int>(i)];
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorCode::kUsage, format("Reshape of {} to [{}]: {}", to_string(input_),
                                          fmt::join(wanted_, ", "), why));
  }

  const std::vector<int64_t>& wanted_;
  const Shape& input_;
  bool zeros_;
};

std::unique_ptr<const BoundOperator> read_as(std::string_view name, const NodeFacts& facts,
                                             const Shape& to) {
  return std::make_unique<Alias>(name, facts, to, common_axes(facts.inputs[0].spec.shape, to));
}

std::unique_ptr<const BoundOperator> bind_reshape(const NodeFacts& facts) {
  if (!facts.attributes.contains("shape"))
    throw Error(ErrorCode::kUsage, "Reshape needs its attribute 'shape'");
  const auto wanted = attribute_ints(facts.attributes, "shape", {});
  const bool zeros = attribute_int(facts.attributes, "allowzero", 0) != 0;
  return read_as("Reshape", facts, Resolver(wanted, facts.inputs[0].spec.shape, zeros).resolve());
}

// Axes before `axis` into one, those from it on into another.
std::unique_ptr<const BoundOperator> bind_flatten(const NodeFacts& facts) {
  const Shape& shape = facts.inputs[0].spec.shape;
  const int64_t wanted = attribute_int(facts.attributes, "axis", 1);
  const int64_t axis = wanted < 0 ? wanted + shape.rank() : wanted;
  if (axis < 0 || axis > shape.rank())
    throw Error(ErrorCode::kUsage, format("Flatten of {} with axis {}: there is no such axis",
                                          to_string(shape), wanted));
  const auto product = [&](int from, int to) {
    const std::vector<int64_t> some(shape.begin() + from, shape.begin() + to);
    const Shape part(some);
    return part.batched() ? -part.elements_per_sample() : part.elements_per_sample();
  };
  const auto at = static_cast<int>(axis);
  return read_as("Flatten", facts, {product(0, at), product(at, shape.rank())});
}

}  // namespace

OperatorDefinitions define_reshape() {
  return {{.name = "Flatten",
           .inputs = {{"input"}},
           .outputs = {{"output"}},
           .attributes = {{"axis"}},
           .bind = bind_flatten},
          {.name = "Reshape",
           .inputs = {{"data"}},
           .outputs = {{"reshaped"}},
           .attributes = {{"allowzero"}, {"shape", AttributeType::kInts}},
           .input_attributes = {{"shape", 1, 5}},
           .bind = bind_reshape}};
}

}  // namespace kerf::ops
