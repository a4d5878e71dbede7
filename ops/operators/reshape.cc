// Reshape (ONNX, opset 14, shape as an attribute) and Flatten (opset 13): the input read with
// another shape, without a copy and without arithmetic.
//
// Of Reshape's `shape`, 0 copies the input's extent and one -1 is inferred; the batch goes where a
// 0 copies it, else where -1 stands: [N, T, D] to [-1, D] has T * N rows. Their iterations are the
// axes that both shapes have in common (ops/common_axes.h); what would divide between them is
// refused.
#include <optional>

#include "ops/common_axes.h"
#include "ops/operator.h"

namespace kerf::ops {
namespace {

class Alias final : public BoundOperator {
 public:
  Alias(std::string_view name, const NodeFacts& facts, const Shape& to)
      : BoundOperator(name, facts) {
    outputs_ = {{input(0).spec.dtype, to}};
    space_ = common_axes(shape(0), to);
  }
  Cost cost(const LocalSpecs&) const override { return {}; }
  BackwardReads backward_reads() const override { return {}; }
  bool aliases() const override { return true; }
};

// Extents with 0 and -1 resolved against the input.
class Resolver {
 public:
  Resolver(const std::vector<int64_t>& wanted, const Shape& input)
      : wanted_(wanted), input_(input) {}

  Shape resolve() {
    if (wanted_.empty() || wanted_.size() > static_cast<size_t>(Shape::kMaxRank))
      fail(format("wants 1 to {} axes", Shape::kMaxRank));
    std::optional<size_t> inferred;
    int64_t known = 1;
    bool batch = !input_.batched();  // whether it has its place
    std::vector<int64_t> extents;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      extents.push_back(extent_of(i));
      if (extents[i] == 0) fail("an extent is 0");
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
    if (inferred) extents[*inferred] = elements % known == 0 ? elements / known : 0;
    if (inferred && !batch) extents[*inferred] = -extents[*inferred];
    const Shape shape(extents);
    if (shape.elements_per_sample() != elements) fail(format("a sample has {} elements", elements));
    return shape;
  }

 private:
  int64_t extent_of(size_t i) const {
    if (wanted_[i] < -1) fail(format("axis {} is {}", i, wanted_[i]));
    if (wanted_[i] != 0) return wanted_[i];
    if (static_cast<int>(i) >= input_.rank()) fail(format("axis {} has nothing to copy", i));
    return input_[static_cast<int>(i)];
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorCode::kUsage, format("Reshape of {} to [{}]: {}", to_string(input_),
                                          fmt::join(wanted_, ", "), why));
  }

  const std::vector<int64_t>& wanted_;
  const Shape& input_;
};

std::unique_ptr<const BoundOperator> bind_reshape(const NodeFacts& facts) {
  const auto wanted = attribute_ints(facts.attributes, "shape", {});
  return std::make_unique<Alias>("Reshape", facts,
                                 Resolver(wanted, facts.inputs[0].spec.shape).resolve());
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
  return std::make_unique<Alias>("Flatten", facts,
                                 Shape{product(0, at), product(at, shape.rank())});
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
           .attributes = {{"shape", AttributeType::kInts}},
           .input_attributes = {{"shape", 1, 5}},
           .bind = bind_reshape}};
}

}  // namespace kerf::ops
