#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "partitioner/onnx/fold.h"
#include "runtime/error.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::DType;
using Folded = std::optional<std::vector<Integers>>;
// Of two elements; nothing where it depends on the batch.
using Binary = std::optional<Affine> (*)(const Affine& a, const Affine& b);

int64_t checked(bool overflow, int64_t value) {
  if (overflow) throw Error(ErrorCode::kUsage, "an integer overflows");
  return value;
}
int64_t plus(int64_t a, int64_t b) {
  int64_t sum = 0;
  const bool overflow = __builtin_add_overflow(a, b, &sum);
  return checked(overflow, sum);
}
int64_t times(int64_t a, int64_t b) {
  int64_t product = 0;
  const bool overflow = __builtin_mul_overflow(a, b, &product);
  return checked(overflow, product);
}
int64_t minus(int64_t a, int64_t b) {
  int64_t difference = 0;
  const bool overflow = __builtin_sub_overflow(a, b, &difference);
  return checked(overflow, difference);
}

std::optional<Affine> add(const Affine& a, const Affine& b) {
  return Affine{plus(a.of_batch, b.of_batch), plus(a.fixed, b.fixed)};
}
std::optional<Affine> subtract(const Affine& a, const Affine& b) {
  return Affine{minus(a.of_batch, b.of_batch), minus(a.fixed, b.fixed)};
}
std::optional<Affine> multiply(const Affine& a, const Affine& b) {
  if (!a.is_fixed() && !b.is_fixed()) return std::nullopt;
  const Affine& factor = a.is_fixed() ? a : b;
  const Affine& other = a.is_fixed() ? b : a;
  return Affine{times(factor.fixed, other.of_batch), times(factor.fixed, other.fixed)};
}

int64_t quotient(int64_t a, int64_t b) {
  if (b == 0) throw Error(ErrorCode::kUsage, "an integer is divided by 0");
  return b == -1 ? minus(0, a) : a / b;
}

std::optional<Affine> divide(const Affine& a, const Affine& b) {
  if (b.is_fixed()) {
    if (a.is_fixed()) return Affine{0, quotient(a.fixed, b.fixed)};
    if (quotient(a.of_batch, b.fixed) * b.fixed == a.of_batch &&
        quotient(a.fixed, b.fixed) * b.fixed == a.fixed)
      return Affine{quotient(a.of_batch, b.fixed), quotient(a.fixed, b.fixed)};
    return std::nullopt;
  }
  if (a.fixed != 0 || b.fixed != 0) return std::nullopt;
  const int64_t times_b = quotient(a.of_batch, b.of_batch);
  return times_b * b.of_batch == a.of_batch ? std::optional(Affine{0, times_b}) : std::nullopt;
}

// -1, 0 or 1 as a is less than b for every batch, equal, or greater.
std::optional<int> compare(const Affine& a, const Affine& b) {
  if (a == b) return 0;
  const Affine d{minus(a.of_batch, b.of_batch), minus(a.fixed, b.fixed)};
  const int64_t at_one = plus(d.of_batch, d.fixed);
  if (d.is_fixed()) return d.fixed < 0 ? -1 : 1;
  if (d.of_batch > 0 && at_one > 0) return 1;
  if (d.of_batch < 0 && at_one < 0) return -1;
  return std::nullopt;
}

template <class Holds>
std::optional<Affine> truth(const Affine& a, const Affine& b, const Holds& holds) {
  const auto order = compare(a, b);
  return order ? std::optional(Affine{0, holds(*order) ? 1 : 0}) : std::nullopt;
}

std::optional<Affine> least(const Affine& a, const Affine& b) {
  const auto order = compare(a, b);
  return order ? std::optional(*order <= 0 ? a : b) : std::nullopt;
}
std::optional<Affine> greatest(const Affine& a, const Affine& b) {
  const auto order = compare(a, b);
  return order ? std::optional(*order >= 0 ? a : b) : std::nullopt;
}

std::optional<Affine> remainder(const Affine& a, const Affine& b, bool of_c) {
  if (!b.is_fixed() || b.fixed == 0) return std::nullopt;
  if (b.fixed == -1) return Affine{};
  if (a.of_batch % b.fixed != 0) return std::nullopt;
  if (!a.is_fixed() && of_c) return std::nullopt;
  const int64_t rest = a.fixed % b.fixed;
  const bool turn = !of_c && rest != 0 && (rest < 0) != (b.fixed < 0);
  return Affine{0, turn ? rest + b.fixed : rest};
}

struct BinaryRow {
  Binary of;
  bool is_truth = false;
};

const std::map<std::string, BinaryRow>& binary_table() {
  static const std::map<std::string, BinaryRow> table{
      {"Add", {add}},
      {"Sub", {subtract}},
      {"Mul", {multiply}},
      {"Div", {divide}},
      {"Min", {least}},
      {"Max", {greatest}},
      {"Sum", {add}},
      {"Equal",
       {[](const Affine& a, const Affine& b) {
          return truth(a, b, [](int order) { return order == 0; });
        },
        true}},
      {"Less",
       {[](const Affine& a, const Affine& b) {
          return truth(a, b, [](int order) { return order < 0; });
        },
        true}},
      {"LessOrEqual",
       {[](const Affine& a, const Affine& b) {
          return truth(a, b, [](int order) { return order <= 0; });
        },
        true}},
      {"Greater",
       {[](const Affine& a, const Affine& b) {
          return truth(a, b, [](int order) { return order > 0; });
        },
        true}},
      {"GreaterOrEqual",
       {[](const Affine& a, const Affine& b) {
          return truth(a, b, [](int order) { return order >= 0; });
        },
        true}},
      {"And",
       {[](const Affine& a, const Affine& b) {
          return std::optional(Affine{0, a.fixed != 0 && b.fixed != 0 ? 1 : 0});
        },
        true}},
      {"Or",
       {[](const Affine& a, const Affine& b) {
          return std::optional(Affine{0, a.fixed != 0 || b.fixed != 0 ? 1 : 0});
        },
        true}}};
  return table;
}

std::vector<int64_t> broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> shape(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t of_a = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t of_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (of_a != of_b && of_a != 1 && of_b != 1)
      throw Error(ErrorCode::kUsage, format("shapes [{}] and [{}] do not fit each other",
                                            fmt::join(a, ", "), fmt::join(b, ", ")));
    shape[shape.size() - 1 - i] = of_a == 1 ? of_b : of_a;
  }
  return shape;
}

// The element of `from` that stands at flat index `at` of a tensor of `shape`.
const Affine& broadcast_element(const Integers& from, const std::vector<int64_t>& shape,
                                int64_t at) {
  int64_t index = 0;
  int64_t stride = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t extent = shape[shape.size() - 1 - i];
    if (i < from.shape.size()) {
      const int64_t own = from.shape[from.shape.size() - 1 - i];
      if (own != 1) index += at % extent * stride;
      stride *= own;
    }
    at /= extent;
  }
  return from.elements[static_cast<size_t>(index)];
}

// Sizes are bounded by the caller's: shapes of folded values broadcast to at most so many.
Integers shaped(DType dtype, const std::vector<int64_t>& shape) {
  Integers result{dtype, shape, {}};
  const int64_t elements = elements_in(shape);
  if (elements > static_cast<int64_t>(kMostIntegers))
    throw Error(ErrorCode::kUsage, "a computed shape is too large");
  result.elements.reserve(static_cast<size_t>(elements));
  return result;
}

template <class Of>
std::optional<Integers> combined(const Integers& a, const Integers& b, DType dtype, const Of& of) {
  Integers result = shaped(dtype, broadcast(a.shape, b.shape));
  for (int64_t i = 0; i < elements_in(result.shape); ++i) {
    const auto one =
        of(broadcast_element(a, result.shape, i), broadcast_element(b, result.shape, i));
    if (!one) return std::nullopt;
    result.elements.push_back(*one);
  }
  return result;
}

Folded fold_binary(const GraphNode& node, const FoldInputs& inputs, const BinaryRow& row) {
  Integers result = *inputs[0];
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) return std::nullopt;
    auto next = combined(result, *inputs[i], row.is_truth ? DType::kBool : result.dtype, row.of);
    if (!next) return std::nullopt;
    result = std::move(*next);
  }
  if (inputs.size() < 2 && node.op != "Min" && node.op != "Max" && node.op != "Sum")
    return std::nullopt;
  return {{std::move(result)}};
}

Folded fold_where(const FoldInputs& inputs) {
  if (inputs.size() != 3 || inputs[1] == nullptr || inputs[2] == nullptr) return std::nullopt;
  const Integers& condition = *inputs[0];
  Integers result = shaped(
      inputs[1]->dtype, broadcast(condition.shape, broadcast(inputs[1]->shape, inputs[2]->shape)));
  for (int64_t i = 0; i < elements_in(result.shape); ++i) {
    const Affine& picks = broadcast_element(condition, result.shape, i);
    result.elements.push_back(
        broadcast_element(picks.fixed != 0 ? *inputs[1] : *inputs[2], result.shape, i));
  }
  return {{std::move(result)}};
}

template <class Of>
Folded fold_each(const Integers& input, const Of& of) {
  Integers result{input.dtype, input.shape, {}};
  result.elements.reserve(input.elements.size());
  for (const Affine& element : input.elements) {
    const std::optional<Affine> one = of(element);
    if (!one) return std::nullopt;
    result.elements.push_back(*one);
  }
  return {{std::move(result)}};
}

// Of all elements, or of a list's: what exporters compute of shapes.
Folded fold_reduce(const GraphNode& node, const FoldInputs& inputs, Binary of, int64_t neutral) {
  const auto axes = ints_of(node, inputs, "axes", 1);
  if (!axes) return std::nullopt;
  const Integers& input = *inputs[0];
  std::set<size_t> reduced;
  for (const int64_t axis : *axes) reduced.insert(axis_of(axis, input.shape.size()));
  const bool noop = ops::attribute_int(node.attributes, "noop_with_empty_axes", 0) != 0;
  const bool all = axes->empty() ? !noop : reduced.size() == input.shape.size();
  if (!all) return std::nullopt;
  std::optional<Affine> total = Affine{0, neutral};
  for (const Affine& element : input.elements) {
    total = of(*total, element);
    if (!total) return std::nullopt;
  }
  const bool keeps = ops::attribute_int(node.attributes, "keepdims", 1) != 0;
  return {{{input.dtype, std::vector<int64_t>(keeps ? input.shape.size() : 0, 1), {*total}}}};
}

Folded fold_range(const FoldInputs& inputs) {
  if (inputs.size() != 3) return std::nullopt;
  for (const Integers* each : inputs)
    if (each == nullptr || each->elements.size() != 1 || !each->elements[0].is_fixed())
      return std::nullopt;
  const int64_t first = inputs[0]->elements[0].fixed;
  const int64_t limit = inputs[1]->elements[0].fixed;
  const int64_t step = inputs[2]->elements[0].fixed;
  if (step == 0) throw Error(ErrorCode::kUsage, "a range in steps of 0");
  Integers result{inputs[0]->dtype, {0}, {}};
  for (int64_t at = first; step > 0 ? at < limit : at > limit; at = plus(at, step)) {
    if (result.elements.size() >= kMostIntegers) return std::nullopt;
    result.elements.push_back({0, at});
  }
  result.shape[0] = static_cast<int64_t>(result.elements.size());
  return {{std::move(result)}};
}

}  // namespace

Folded fold_arithmetic(const GraphNode& node, const FoldInputs& inputs) {
  const auto row = binary_table().find(node.op);
  if (row != binary_table().end()) return fold_binary(node, inputs, row->second);
  if (node.op == "Mod") {
    const bool of_c = ops::attribute_int(node.attributes, "fmod", 0) != 0;
    if (inputs.size() != 2 || inputs[1] == nullptr) return std::nullopt;
    auto result =
        combined(*inputs[0], *inputs[1], inputs[0]->dtype,
                 [of_c](const Affine& a, const Affine& b) { return remainder(a, b, of_c); });
    return result ? Folded({std::move(*result)}) : std::nullopt;
  }
  if (node.op == "Where") return fold_where(inputs);
  if (node.op == "Range") return fold_range(inputs);
  if (node.op == "ReduceProd") return fold_reduce(node, inputs, multiply, 1);
  if (node.op == "ReduceSum") return fold_reduce(node, inputs, add, 0);
  if (node.op == "Neg")
    return fold_each(*inputs[0], [](const Affine& each) {
      return std::optional(Affine{minus(0, each.of_batch), minus(0, each.fixed)});
    });
  if (node.op == "Not")
    return fold_each(*inputs[0], [](const Affine& each) {
      return std::optional(Affine{0, each.fixed == 0 ? 1 : 0});
    });
  if (node.op == "Abs")
    return fold_each(*inputs[0], [](const Affine& each) {
      return each.is_fixed()
                 ? std::optional(Affine{0, each.fixed < 0 ? minus(0, each.fixed) : each.fixed})
                 : std::nullopt;
    });
  return std::nullopt;
}

}  // namespace kerf::partitioner::onnx
