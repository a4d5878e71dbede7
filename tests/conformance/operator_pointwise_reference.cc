// Element-wise operators by their formulas, in float64.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "ops/image_format.h"
#include "tests/conformance/operator_reference.h"

namespace kerf::ops {
namespace {

// What one element is computed from: the inputs' elements, absent ones 0, and the case.
struct Element {
  const OperatorCase& scene;
  const std::vector<double>& in;

  double operator[](size_t input) const { return in[input]; }
  bool integers() const { return !is_floating(scene.inputs[0].spec.dtype); }
  double mean() const {
    return std::accumulate(in.begin(), in.end(), 0.0) / static_cast<double>(in.size());
  }
  double attribute(const char* name, double otherwise) const {
    return attribute_float(scene.attributes, name, otherwise);
  }
  int64_t number(const char* name, int64_t otherwise) const {
    return attribute_int(scene.attributes, name, otherwise);
  }
  std::string text(const char* name) const { return attribute_string(scene.attributes, name, ""); }
};
using Formula = std::function<double(const Element&)>;

int64_t whole(double x) { return static_cast<int64_t>(x); }

std::map<std::string, Formula> formulas_of_two() {
  return {
      {"Add", [](const Element& e) { return e[0] + e[1]; }},
      {"Sub", [](const Element& e) { return e[0] - e[1]; }},
      {"Mul", [](const Element& e) { return e[0] * e[1]; }},
      {"Div",
       [](const Element& e) { return e.integers() ? std::trunc(e[0] / e[1]) : e[0] / e[1]; }},
      {"Pow",
       [](const Element& e) {
         const double power = std::pow(e[0], e[1]);
         return e.integers() ? std::trunc(power) : power;
       }},
      {"PRelu", [](const Element& e) { return e[0] < 0 ? e[0] * e[1] : e[0]; }},
      {"Mod",
       [](const Element& e) {
         if (e.number("fmod", 0) == 1) return std::fmod(e[0], e[1]);
         return e[0] - std::floor(e[0] / e[1]) * e[1];
       }},
      {"BitwiseAnd", [](const Element& e) { return double(whole(e[0]) & whole(e[1])); }},
      {"BitwiseOr", [](const Element& e) { return double(whole(e[0]) | whole(e[1])); }},
      {"BitwiseXor", [](const Element& e) { return double(whole(e[0]) ^ whole(e[1])); }},
      {"BitShift",
       [](const Element& e) {
         const double factor = std::ldexp(1, static_cast<int>(e[1]));
         return e.text("direction") == "LEFT" ? e[0] * factor : std::floor(e[0] / factor);
       }},
      {"Equal", [](const Element& e) { return e[0] == e[1] ? 1 : 0; }},
      {"Less", [](const Element& e) { return e[0] < e[1] ? 1 : 0; }},
      {"LessOrEqual", [](const Element& e) { return e[0] <= e[1] ? 1 : 0; }},
      {"Greater", [](const Element& e) { return e[0] > e[1] ? 1 : 0; }},
      {"GreaterOrEqual", [](const Element& e) { return e[0] >= e[1] ? 1 : 0; }},
      {"And", [](const Element& e) { return e[0] * e[1]; }},
      {"Or", [](const Element& e) { return e[0] + e[1] > 0 ? 1 : 0; }},
      {"Xor", [](const Element& e) { return e[0] == e[1] ? 0 : 1; }},
  };
}

std::map<std::string, Formula> formulas_of_many() {
  return {
      {"Sum", [](const Element& e) { return e.mean() * static_cast<double>(e.in.size()); }},
      {"Mean", [](const Element& e) { return e.mean(); }},
      {"Max", [](const Element& e) { return *std::max_element(e.in.begin(), e.in.end()); }},
      {"Min", [](const Element& e) { return *std::min_element(e.in.begin(), e.in.end()); }},
      {"Where", [](const Element& e) { return e[0] != 0 ? e[1] : e[2]; }},
      {"Cast",
       [](const Element& e) {
         const int64_t to = e.number("to", 0);
         if (to == 9) return e[0] != 0 ? 1.0 : 0.0;
         return to == 1 || to == 10 || to == 11 || to == 16 ? e[0] : std::trunc(e[0]);
       }},
  };
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double soft_step(double x) { return std::log1p(std::exp(x)); }
double clipped(double x, double least, double most) { return std::min(std::max(x, least), most); }

std::map<std::string, Formula> activation_formulas() {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  return {
      {"Relu", [](const Element& e) { return std::max(e[0], 0.0); }},
      {"LeakyRelu",
       [](const Element& e) { return e[0] < 0 ? e.attribute("alpha", 0.01) * e[0] : e[0]; }},
      {"ThresholdedRelu",
       [](const Element& e) { return e[0] > e.attribute("alpha", 1) ? e[0] : 0; }},
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
         return e[0] < 0 ? e.attribute("alpha", 1) * (std::exp(e[0]) - 1) : e[0];
       }},
      {"Selu",
       [](const Element& e) {
         const double alpha = e.attribute("alpha", 1.67326319217681884765625);
         return e.attribute("gamma", 1.05070102214813232421875) *
                (e[0] < 0 ? alpha * (std::exp(e[0]) - 1) : e[0]);
       }},
      {"Celu",
       [](const Element& e) {
         const double alpha = e.attribute("alpha", 1);
         return std::max(0.0, e[0]) + std::min(0.0, alpha * (std::exp(e[0] / alpha) - 1));
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
                                                        : 0; }},
      {"IsNaN", [](const Element&) { return 0; }},  // what is drawn is finite
      {"IsInf", [](const Element&) { return 0; }},
      {"Not", [](const Element& e) { return 1 - e[0]; }},
      {"BitwiseNot", [](const Element& e) { return -e[0] - 1; }},
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

// `tensor` as it is repeated over element `at` of an output, by ONNX's axes.
double repeated_element(const HostTensor& tensor, const Shape& output, int64_t at) {
  int64_t from = 0;
  int64_t stride = 1;
  for (int axis = output.rank() - 1; axis >= 0; --axis) {
    const int own = axis - output.rank() + tensor.shape.rank();
    const int64_t index = at % output[axis];
    at /= output[axis];
    if (own < 0) continue;
    if (tensor.shape[own] != 1) from += index * stride;
    stride *= tensor.shape[own];
  }
  const auto place = static_cast<size_t>(from);
  return tensor.integers.empty() ? double{tensor.floats[place]}
                                 : static_cast<double>(tensor.integers[place]);
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
  Reference reference;
  reference.terms = 30;  // of functions, each of a few roundings
  std::vector<double> in(operands.size());
  for (int64_t at = 0; at < output.elements(); ++at) {
    double largest = 1;
    for (size_t i = 0; i < operands.size(); ++i) {
      in[i] = scene.inputs[i].present ? repeated_element(operands[i], output, at) : 0;
      largest = std::max(largest, std::abs(in[i]));
    }
    reference.values.push_back(formula->second({scene, in}));
    reference.magnitudes.push_back(std::max(largest, std::abs(reference.values.back())));
  }
  return reference;
}

}  // namespace kerf::ops
