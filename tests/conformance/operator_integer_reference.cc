// Operators of integers by their formulas, exactly: in numbers of 128 bits, of which a result keeps
// as many as its type has.
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "tests/conformance/operator_reference.h"
#include "tests/conformance/reference_loops.h"

namespace kerf::ops {
namespace {

__extension__ using Wide = __int128;
using Wides = std::vector<Wide>;

struct Integers {
  const OperatorCase& scene;
  const Wides& in;

  Wide operator[](size_t input) const { return in[input]; }
  double bound(const char* name, double otherwise) const {
    return attribute_float(scene.attributes, name, otherwise);
  }
};
using IntegerFormula = std::function<Wide(const Integers&)>;

// Of tensors of uint64 the bits are held.
Wide wide_at(const HostTensor& tensor, size_t i) {
  const int64_t held = tensor.integers[i];
  return tensor.dtype == DType::kUint64 ? Wide{static_cast<uint64_t>(held)} : Wide{held};
}

int64_t kept_bits(Wide x, DType to) {
  const auto bits = static_cast<uint64_t>(x);
  switch (to) {
    case DType::kBool:
      return x != 0 ? 1 : 0;
    case DType::kInt8:
      return static_cast<int8_t>(bits);
    case DType::kInt16:
      return static_cast<int16_t>(bits);
    case DType::kInt32:
      return static_cast<int32_t>(bits);
    case DType::kUint8:
      return static_cast<uint8_t>(bits);
    case DType::kUint16:
      return static_cast<uint16_t>(bits);
    case DType::kUint32:
      return static_cast<uint32_t>(bits);
    default:
      return static_cast<int64_t>(bits);
  }
}

// The least 64 bits, which say what those of any integer type are.
Wide wide_product(Wide a, Wide b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

Wide wide_power(Wide base, Wide exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  Wide result = 1;
  for (; exponent > 0; exponent /= 2, base = wide_product(base, base))
    if (exponent % 2 == 1) result = wide_product(result, base);
  return result;
}

Wide wide_modulus(const Integers& x) {
  if (x[1] == 0) return 0;
  const Wide rest = x[0] % x[1];
  const bool as_dividend = attribute_int(x.scene.attributes, "fmod", 0) == 1;
  return as_dividend || rest == 0 || (rest < 0) == (x[1] < 0) ? rest : rest + x[1];
}

Wide wide_shifted(const Integers& x) {
  if (x[1] > 63) return 0;
  const bool left = attribute_string(x.scene.attributes, "direction", "") == "LEFT";
  const Wide factor = Wide{1} << static_cast<int>(x[1]);
  return left ? x[0] * factor : x[0] / factor;
}

Wide wide_clipped(const Integers& x) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const double least = x.bound("min", -kInfinite);
  const double most = x.bound("max", kInfinite);
  if (std::isfinite(least) && x[0] < static_cast<Wide>(least)) return static_cast<Wide>(least);
  if (std::isfinite(most) && x[0] > static_cast<Wide>(most)) return static_cast<Wide>(most);
  return x[0];
}

std::map<std::string, IntegerFormula> arithmetic() {
  return {
      {"Add", [](const Integers& x) { return x[0] + x[1]; }},
      {"Sub", [](const Integers& x) { return x[0] - x[1]; }},
      {"Mul", [](const Integers& x) { return wide_product(x[0], x[1]); }},
      {"Div", [](const Integers& x) { return x[1] == 0 ? 0 : x[0] / x[1]; }},
      {"Mod", wide_modulus},
      {"Pow", [](const Integers& x) { return wide_power(x[0], x[1]); }},
      {"Max", [](const Integers& x) { return *std::max_element(x.in.begin(), x.in.end()); }},
      {"Min", [](const Integers& x) { return *std::min_element(x.in.begin(), x.in.end()); }},
      {"Abs", [](const Integers& x) { return x[0] < 0 ? -x[0] : x[0]; }},
      {"Neg", [](const Integers& x) { return -x[0]; }},
      {"Sign", [](const Integers& x) { return Wide{x[0] > 0 ? 1 : 0} - (x[0] < 0 ? 1 : 0); }},
      {"Relu", [](const Integers& x) { return x[0] < 0 ? 0 : x[0]; }},
      {"Clip", wide_clipped},
      {"Cast", [](const Integers& x) { return x[0]; }},
  };
}

std::map<std::string, IntegerFormula> bits_and_truths() {
  return {
      {"BitwiseAnd", [](const Integers& x) { return x[0] & x[1]; }},
      {"BitwiseOr", [](const Integers& x) { return x[0] | x[1]; }},
      {"BitwiseXor", [](const Integers& x) { return x[0] ^ x[1]; }},
      {"BitwiseNot", [](const Integers& x) { return -x[0] - 1; }},
      {"BitShift", wide_shifted},
      {"Not", [](const Integers& x) { return Wide{x[0] == 0}; }},
      {"And", [](const Integers& x) { return x[0] * x[1]; }},
      {"Or", [](const Integers& x) { return x[0] + x[1]; }},
      {"Xor", [](const Integers& x) { return Wide{x[0] != x[1]}; }},
      {"Equal", [](const Integers& x) { return Wide{x[0] == x[1]}; }},
      {"Less", [](const Integers& x) { return Wide{x[0] < x[1]}; }},
      {"LessOrEqual", [](const Integers& x) { return Wide{x[0] <= x[1]}; }},
      {"Greater", [](const Integers& x) { return Wide{x[0] > x[1]}; }},
      {"GreaterOrEqual", [](const Integers& x) { return Wide{x[0] >= x[1]}; }},
  };
}

// Of all that become one.
std::map<std::string, IntegerFormula> integer_reductions() {
  const auto wide_sum = [](const Wides& all) {
    return std::accumulate(all.begin(), all.end(), Wide{0});
  };
  const auto sum_of_terms = [=](const Wides& all, Wide (*term)(Wide)) {
    Wides terms;
    for (const Wide each : all) terms.push_back(term(each));
    return wide_sum(terms);
  };
  return {
      {"ReduceSum", [=](const Integers& x) { return wide_sum(x.in); }},
      {"ReduceMean",
       [=](const Integers& x) { return wide_sum(x.in) / static_cast<Wide>(x.in.size()); }},
      {"ReduceMax", [](const Integers& x) { return *std::max_element(x.in.begin(), x.in.end()); }},
      {"ReduceMin", [](const Integers& x) { return *std::min_element(x.in.begin(), x.in.end()); }},
      {"ReduceProd",
       [](const Integers& x) {
         return std::accumulate(x.in.begin(), x.in.end(), Wide{1}, wide_product);
       }},
      {"ReduceL1",
       [=](const Integers& x) {
         return sum_of_terms(x.in, [](Wide each) { return each < 0 ? -each : each; });
       }},
      {"ReduceSumSquare",
       [=](const Integers& x) {
         return sum_of_terms(x.in, [](Wide each) { return wide_product(each, each); });
       }},
  };
}

// Along the axes that are reduced, all of which are of `scene`'s list or, without one, all there
// are.
Wides reduced_together(const OperatorCase& scene, const HostTensor& x, const Shape& y, int64_t at) {
  const auto axes = attribute_ints(scene.attributes, "axes", {});
  Shape whole = x.shape;  // as the output would be, were all axes kept
  for (int axis = 0; axis < x.shape.rank(); ++axis)
    if (axes.empty() || std::count(axes.begin(), axes.end(), axis) +
                                std::count(axes.begin(), axes.end(), axis - x.shape.rank()) >
                            0)
      whole[axis] = 1;
  KERF_CHECK(whole.elements() == y.elements(), "{} is not reduced to {}", to_string(x.shape),
             to_string(y));
  Wides together;
  for (int64_t i = 0; i < x.shape.elements(); ++i)
    if (static_cast<int64_t>(reference::repeated_place(whole, x.shape, i)) == at)
      together.push_back(wide_at(x, static_cast<size_t>(i)));
  return together;
}

}  // namespace

std::optional<Reference> integer_reference(const OperatorCase& scene,
                                           const std::vector<HostTensor>& inputs,
                                           const Shape& output) {
  static const std::map<std::string, IntegerFormula> kReductions = integer_reductions();
  static const std::map<std::string, IntegerFormula> kElementwise = [] {
    std::map<std::string, IntegerFormula> all = arithmetic();
    all.merge(bits_and_truths());
    return all;
  }();
  const bool reduces = kReductions.contains(scene.op);
  const auto is_whole = [](const HostTensor& tensor) { return !is_floating(tensor.dtype); };
  if ((!reduces && !kElementwise.contains(scene.op)) ||
      !std::all_of(inputs.begin(), inputs.end(), is_whole))
    return std::nullopt;
  const IntegerFormula& formula = (reduces ? kReductions : kElementwise).at(scene.op);
  const DType type = bind(scene)->outputs()[0].dtype;
  if (is_floating(type)) return std::nullopt;
  Reference reference;
  for (int64_t at = 0; at < output.elements(); ++at) {
    Wides in;
    if (reduces)
      in = reduced_together(scene, inputs[0], output, at);
    else
      for (const HostTensor& each : inputs)
        in.push_back(wide_at(each, reference::repeated_place(each.shape, output, at)));
    reference.integers.push_back(kept_bits(formula({scene, in}), type));
  }
  return reference;
}

}  // namespace kerf::ops
