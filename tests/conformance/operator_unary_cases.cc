// Cases of what works element by element on one input.
#include "tests/conformance/operator_case.h"

namespace kerf::ops {
namespace {

const Shape kImages{kBatch, 6, 5, 3};

void add_derived_cases(std::vector<OperatorCase>& cases) {
  const auto add = [&](std::string name, std::string op, Draw draw, Attributes attributes = {}) {
    cases.push_back({.name = std::move(name),
                     .op = std::move(op),
                     .attributes = std::move(attributes),
                     .inputs = {activation(kImages, draw)},
                     .epsilon = draw == Draw::kApart ? 0.02 : 0.005});
  };
  for (const char* op : {"Relu",        "Sigmoid",   "Tanh",     "LeakyRelu", "ThresholdedRelu",
                         "HardSigmoid", "HardSwish", "Shrink",   "Abs",       "Neg",
                         "Clip",        "Erf",       "Gelu",     "Swish",     "Elu",
                         "Selu",        "Celu",      "Softplus", "Softsign",  "Mish",
                         "Atan",        "Asinh"})
    add(op, op, Draw::kApart);
  for (const char* op : {"Exp", "Sin", "Cos", "Tan", "Sinh", "Cosh"}) add(op, op, Draw::kUniform);
  for (const char* op : {"Asin", "Acos", "Atanh"}) add(op, op, Draw::kInner);
  for (const char* op : {"Log", "Sqrt", "Reciprocal"}) add(op, op, Draw::kPositive);
  add("Acosh", "Acosh", Draw::kAboveOne);
  add("LeakyRelu_steep", "LeakyRelu", Draw::kApart, {{"alpha", 0.3}});
  add("ThresholdedRelu_of_two", "ThresholdedRelu", Draw::kApart, {{"alpha", 2.0}});
  add("Clip_both_ways", "Clip", Draw::kApart, {{"min", -2.0}, {"max", 3.0}});
  add("Clip_from_below", "Clip", Draw::kApart, {{"min", 0.0}});
  add("HardSigmoid_of_hardware", "HardSigmoid", Draw::kApart, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
  add("Shrink_towards_zero", "Shrink", Draw::kApart, {{"lambd", 1.5}, {"bias", 1.5}});
  add("Gelu_by_tanh", "Gelu", Draw::kApart, {{"approximate", "tanh"}});
  add("Swish_steep", "Swish", Draw::kApart, {{"alpha", 1.7}});
  add("Elu_steep", "Elu", Draw::kApart, {{"alpha", 2.0}});
  add("Selu_of_others", "Selu", Draw::kApart, {{"alpha", 2.0}, {"gamma", 3.0}});
  add("Celu_wide", "Celu", Draw::kApart, {{"alpha", 2.0}});
}

// Operators without a gradient, and types that have none.
void add_plain_cases_of_one(std::vector<OperatorCase>& cases) {
  const auto add = [&](const std::string& op, const CaseInput& x, Attributes attributes = {}) {
    cases.push_back({.name = op + "_of_" + std::string(to_string(x.spec.dtype)),
                     .op = op,
                     .attributes = std::move(attributes),
                     .inputs = {x}});
  };
  for (const char* op : {"Floor", "Ceil", "Round", "Sign", "IsNaN", "IsInf"})
    add(op, numbers(DType::kFloat32, {kBatch, 6, 5}, Draw::kHalves));
  for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kInt8}) {
    for (const char* op : {"Abs", "Neg", "Sign", "Relu", "BitwiseNot"})
      add(op, integers(dtype, {kBatch, 6, 5}, Draw::kSigned, 9));
    add("Clip", integers(dtype, {kBatch, 6, 5}, Draw::kSigned, 9), {{"min", -3.0}, {"max", 4.0}});
  }
  for (const DType dtype : {DType::kUint8, DType::kUint64})
    for (const char* op : {"Abs", "Sign", "Clip"})
      add(op, integers(dtype, {kBatch, 6, 5}, Draw::kClass, 9));
  add("Not", integers(DType::kBool, {kBatch, 6, 5}, Draw::kClass, 2));
  for (const char* op : {"Exp", "Abs", "Floor", "Gelu", "Softplus"})
    add(op, numbers(DType::kFloat64, {kBatch, 6, 5}, Draw::kHalves));
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16})
    for (const char* op : {"Abs", "Round", "Relu", "Neg"})
      add(op, numbers(dtype, {kBatch, 6, 5}, Draw::kHalves));
}

// Every type from and to some other.
void add_cast_cases(std::vector<OperatorCase>& cases) {
  const auto add = [&](int64_t to, const CaseInput& x) {
    cases.push_back({.name = "Cast_of_" + std::string(to_string(x.spec.dtype)) + "_to_type_" +
                             std::to_string(to),
                     .op = "Cast",
                     .attributes = {{"to", to}},
                     .inputs = {x}});
  };
  const Shape shape{kBatch, 6, 5};
  add(1, activation(shape));
  for (const int64_t to : {1, 3, 6, 7, 9, 10, 11, 16})
    add(to, numbers(DType::kFloat64, shape, Draw::kHalves));
  for (const int64_t to : {6, 10, 16}) add(to, numbers(DType::kFloat32, shape, Draw::kHalves));
  for (const DType from : {DType::kFloat16, DType::kBFloat16})
    add(1, numbers(from, shape, Draw::kHalves));
  for (const DType from : {DType::kInt32, DType::kInt64, DType::kInt8, DType::kInt16})
    for (const int64_t to : {1, 3, 5, 7, 9}) add(to, integers(from, shape, Draw::kSigned, 9));
  for (const DType from :
       {DType::kBool, DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64})
    for (const int64_t to : {1, 2, 4, 12, 13}) add(to, integers(from, shape, Draw::kClass, 2));
}

}  // namespace

std::vector<OperatorCase> unary_cases() {
  std::vector<OperatorCase> cases;
  add_cast_cases(cases);
  add_derived_cases(cases);
  add_plain_cases_of_one(cases);
  return cases;
}

}  // namespace kerf::ops
