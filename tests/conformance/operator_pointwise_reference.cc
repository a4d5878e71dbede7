// Element-wise operators of floating-point numbers by their formulas, in float64.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "ops/image_format.h"
#include "tests/conformance/operator_reference.h"
#include "tests/conformance/reference_loops.h"

namespace kerf::ops {
namespace {

// What one element is computed from: the inputs' elements, absent ones 0, and the case.
struct Element {
  const OperatorCase& scene;
  const std::vector<double>& in;
  DType output;

  double operator[](size_t input) const { return in[input]; }
  double sum() const { return std::accumulate(in.begin(), in.end(), 0.0); }
  double attribute(const char* name, double otherwise) const {
    return attribute_float(scene.attributes, name, otherwise);
  }
  std::string text(const char* name) const { return attribute_string(scene.attributes, name, ""); }
};
using Formula = std::function<double(const Element&)>;

// A number as one of another type, as the kernels convert it.
double as_type(double x, DType to) {
  if (to == DType::kBool) return x != 0 ? 1 : 0;
  if (is_floating(to)) return x;
  if (std::isnan(x)) return 0;
  const auto bits = static_cast<int>(8 * size_of(to));
  const bool has_sign =
      to == DType::kInt8 || to == DType::kInt16 || to == DType::kInt32 || to == DType::kInt64;
  const double most = std::ldexp(1, has_sign ? bits - 1 : bits);
  return std::clamp(std::trunc(x), has_sign ? -most : 0.0, bits < 64 ? most - 1 : most);
}

std::map<std::string, Formula> formulas_of_two() {
  return {
      {"Add", [](const Element& e) { return e[0] + e[1]; }},
      {"Sub", [](const Element& e) { return e[0] - e[1]; }},
      {"Mul", [](const Element& e) { return e[0] * e[1]; }},
      {"Div", [](const Element& e) { return e[0] / e[1]; }},
      {"Pow", [](const Element& e) { return std::pow(e[0], e[1]); }},
      {"PRelu", [](const Element& e) { return e[0] < 0 ? e[0] * e[1] : e[0]; }},
      {"Equal", [](const Element& e) { return e[0] == e[1] ? 1 : 0; }},
      {"Less", [](const Element& e) { return e[0] < e[1] ? 1 : 0; }},
      {"LessOrEqual", [](const Element& e) { return e[0] <= e[1] ? 1 : 0; }},
      {"Greater", [](const Element& e) { return e[0] > e[1] ? 1 : 0; }},
      {"GreaterOrEqual", [](const Element& e) { return e[0] >= e[1] ? 1 : 0; }},
  };
}

std::map<std::string, Formula> formulas_of_many() {
  return {
      {"Sum", [](const Element& e) { return e.sum(); }},
      {"Mean", [](const Element& e) { return e.sum() / static_cast<double>(e.in.size()); }},
      {"Max", [](const Element& e) { return reference::largest(e.in); }},
      {"Min",
       [](const Element& e) {
         return std::accumulate(e.in.begin(), e.in.end(), e[0], reference::smaller);
       }},
      {"Where", [](const Element& e) { return e[0] != 0 ? e[1] : e[2]; }},
      {"Cast", [](const Element& e) { return as_type(e[0], e.output); }},
  };
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double soft_step(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double clipped(double x, double least, double most) { return std::min(std::max(x, least), most); }

std::map<std::string, Formula> activation_formulas() {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  return {
      {"Relu", [](const Element& e) { return std::max(e[0], 0.0); }},
      {"LeakyRelu",
       [](const Element& e) { return e[0] < 0 ? e.attribute("alpha", 0.01) * e[0] : e[0]; }},
      {"ThresholdedRelu",
       [](const Element& e) { return e[0] <= e.attribute("alpha", 1) ? 0 : e[0]; }},
      {"Clip",
       [](const Element& e) {
         return clipped(e[0], e.attribute("min", -kInfinite), e.attribute("max", kInfinite));
       }},
      {"HardSigmoid",
       [](const Element& e) {
         return clipped(e.attribute("alpha", 0.2) * e[0] + e.attribute("beta", 0.5), 0, 1);
       }},
      {"HardSwish", [](const Element& e) { return e[0] * clipped(e[0] / 6 + 0.5, 0, 1); }},
      {"Shrink",
       [](const Element& e) {
         const double bias = e.attribute("bias", 0);
         if (std::abs(e[0]) <= e.attribute("lambd", 0.5)) return 0.0;
         return e[0] < 0 ? e[0] + bias : e[0] - bias;
       }},
      {"Gelu",
       [](const Element& e) {
         const double bent = std::sqrt(2 / M_PI) * (e[0] + 0.044715 * std::pow(e[0], 3));
         return e.text("approximate") == "tanh" ? 0.5 * e[0] * (1 + std::tanh(bent))
                                                : 0.5 * e[0] * (1 + std::erf(e[0] / std::sqrt(2)));
       }},
      {"Swish", [](const Element& e) { return e[0] * logistic(e.attribute("alpha", 1) * e[0]); }},
      {"Elu",
       [](const Element& e) {
         return e[0] < 0 ? e.attribute("alpha", 1) * std::expm1(e[0]) : e[0];
       }},
      {"Selu",
       [](const Element& e) {
         const double alpha = e.attribute("alpha", 1.67326319217681884765625);
         return e.attribute("gamma", 1.05070102214813232421875) *
                (e[0] < 0 ? alpha * std::expm1(e[0]) : e[0]);
       }},
      {"Celu",
       [](const Element& e) {
         const double alpha = e.attribute("alpha", 1);
         return e[0] < 0 ? alpha * std::expm1(e[0] / alpha) : e[0];
       }},
      {"Softplus", [](const Element& e) { return soft_step(e[0]); }},
      {"Softsign", [](const Element& e) { return e[0] / (1 + std::abs(e[0])); }},
      {"Mish", [](const Element& e) { return e[0] * std::tanh(soft_step(e[0])); }},
      {"Sigmoid", [](const Element& e) { return logistic(e[0]); }},
  };
}

std::map<std::string, Formula> formulas_of_one() {
  const auto of = [](double (*function)(double)) {
    return [function](const Element& e) { return function(e[0]); };
  };
  return {
      {"Tanh", of(std::tanh)},
      {"Exp", of(std::exp)},
      {"Log", of(std::log)},
      {"Sqrt", of(std::sqrt)},
      {"Erf", of(std::erf)},
      {"Abs", of(std::fabs)},
      {"Sin", of(std::sin)},
      {"Cos", of(std::cos)},
      {"Tan", of(std::tan)},
      {"Asin", of(std::asin)},
      {"Acos", of(std::acos)},
      {"Atan", of(std::atan)},
      {"Sinh", of(std::sinh)},
      {"Cosh", of(std::cosh)},
      {"Asinh", of(std::asinh)},
      {"Acosh", of(std::acosh)},
      {"Atanh", of(std::atanh)},
      {"Floor", of(std::floor)},
      {"Ceil", of(std::ceil)},
      {"Round", of(std::rint)},
      {"Neg", [](const Element& e) { return -e[0]; }},
      {"Reciprocal", [](const Element& e) { return 1 / e[0]; }},
      {"Sign", [](const Element& e) { return e[0] > 0   ? 1
                                             : e[0] < 0 ? -1
                                                        : e[0]; }},
      {"IsNaN", [](const Element& e) { return std::isnan(e[0]) ? 1 : 0; }},
      {"IsInf", [](const Element& e) { return std::isinf(e[0]) ? 1 : 0; }},
  };
}

const std::map<std::string, Formula>& formulas() {
  static const std::map<std::string, Formula> all = [] {
    std::map<std::string, Formula> found = formulas_of_two();
    found.merge(formulas_of_many());
    found.merge(activation_formulas());
    found.merge(formulas_of_one());
    return found;
  }();
  return all;
}

double repeated_element(const HostTensor& tensor, const Shape& output, int64_t at) {
  const size_t place = reference::repeated_place(tensor.shape, output, at);
  if (tensor.integers.empty()) return double{tensor.floats[place]};
  const int64_t whole = tensor.integers[place];
  return tensor.dtype == DType::kUint64 ? static_cast<double>(static_cast<uint64_t>(whole))
                                        : static_cast<double>(whole);
}

// What has channels last beside images has them there; [C, 1, 1] is [1, 1, C] then.
HostTensor turned_over(HostTensor tensor) {
  const int64_t elements = tensor.shape.elements();
  if (tensor.shape.rank() < 2) return tensor;
  tensor.shape = {1, 1, elements};
  return tensor;
}

}  // namespace

std::optional<Reference> pointwise_reference(const OperatorCase& scene,
                                             const std::vector<HostTensor>& inputs,
                                             const Shape& output) {
  const auto formula = formulas().find(scene.op);
  if (formula == formulas().end()) return std::nullopt;
  std::vector<HostTensor> operands = inputs;
  const bool last = image_format(scene.attributes) == ImageFormat::kChannelsLast;
  for (size_t i = 0; i < operands.size(); ++i)
    if (last && is_kept(scene.inputs[i].role)) operands[i] = turned_over(operands[i]);
  const DType type = bind(scene)->outputs()[0].dtype;
  Reference reference;
  reference.terms = 30;  // of functions, each of a few roundings
  std::vector<double> in(operands.size());
  for (int64_t at = 0; at < output.elements(); ++at) {
    double largest = 1;
    for (size_t i = 0; i < operands.size(); ++i) {
      in[i] = scene.inputs[i].present ? repeated_element(operands[i], output, at) : 0;
      if (std::isfinite(in[i])) largest = std::max(largest, std::abs(in[i]));
    }
    reference.values.push_back(formula->second({scene, in, type}));
    reference.magnitudes.push_back(std::max(largest, std::abs(reference.values.back())));
  }
  return reference;
}

}  // namespace kerf::ops
