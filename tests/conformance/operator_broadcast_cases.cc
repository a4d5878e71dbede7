// Cases of what works element by element on several inputs, repeated over each other.
#include "tests/conformance/operator_case.h"

namespace kerf::ops {
namespace {

void add_smooth_cases(std::vector<OperatorCase>& cases) {
  const auto add = [&](std::string name, std::string op, CaseInput a, CaseInput b,
                       double epsilon = 0.25) {
    cases.push_back(
        {.name = std::move(name), .op = std::move(op), .inputs = {a, b}, .epsilon = epsilon});
  };
  add("Add_of_one_shape", "Add", activation({kBatch, 7, 3}), activation({kBatch, 7, 3}));
  add("Add_bias", "Add", activation({kBatch, 9}), parameter({9}));
  add("Add_bias_of_channels", "Add", parameter({4, 1, 1}), activation({kBatch, 4, 3, 5}));
  add("Add_of_positions", "Add", activation({kBatch, 4, 6}), parameter({4, 1}));
  add("Add_one_number", "Add", activation({kBatch, 5}), parameter({1}));
  add("Add_of_images", "Add", activation({kBatch, 4, 3, 5}), activation({kBatch, 4, 3, 5}));
  add("Add_of_columns_and_rows", "Add", activation({kBatch, 1, 6}), activation({kBatch, 5, 1}));
  add("Add_to_what_has_no_samples", "Add", activation({4, 5}), activation({kBatch, 4, 5}));
  add("Sub", "Sub", activation({kBatch, 4, 3}), activation({kBatch, 4, 3}));
  add("Sub_from_one_number", "Sub", parameter({}), activation({kBatch, 4, 3}));
  add("Sub_of_rows", "Sub", activation({kBatch, 6, 5}), activation({kBatch, 6, 1}));
  add("Mul", "Mul", activation({kBatch, 4, 3}), activation({kBatch, 4, 3}));
  add("Mul_by_channels", "Mul", activation({kBatch, 4, 3, 2}), activation({kBatch, 4, 1, 1}));
  add("Mul_by_a_parameter_of_channels", "Mul", activation({kBatch, 4, 3, 2}),
      parameter({1, 4, 1, 1}));
  add("Mul_of_columns_and_rows", "Mul", parameter({5, 1}), activation({kBatch, 1, 6}));
  add("Mul_of_the_batch_by_features", "Mul", activation({kBatch, 1}), parameter({7}));
  add("Div", "Div", activation({kBatch, 4, 3}), activation({kBatch, 4, 3}, Draw::kPositive), 0.01);
  add("Div_by_rows", "Div", activation({kBatch, 4, 3}), activation({kBatch, 4, 1}, Draw::kPositive),
      0.01);
  add("Div_of_one_number", "Div", parameter({1}), activation({kBatch, 6}, Draw::kPositive), 0.01);
  add("Pow", "Pow", activation({kBatch, 70}, Draw::kPositive), activation({kBatch, 70}), 0.01);
  add("Pow_of_features", "Pow", activation({kBatch, 3, 5}, Draw::kPositive), parameter({5}), 0.01);
  add("PRelu", "PRelu", activation({kBatch, 4, 5}, Draw::kApart), parameter({4, 1}), 0.02);
  add("PRelu_of_channels", "PRelu", activation({kBatch, 3, 2, 4}, Draw::kApart),
      parameter({3, 1, 1}), 0.02);
}

// Types that have no gradient, and operators without one.
void add_plain_cases(std::vector<OperatorCase>& cases) {
  const Shape whole{kBatch, 4, 5};
  const Shape row{4, 1};
  const auto add = [&](const std::string& op, DType dtype, const CaseInput& a, const CaseInput& b,
                       Attributes attributes = {}) {
    std::string name = op + "_of_" + std::string(to_string(dtype));
    for (const auto& [key, value] : attributes)
      name += "_" + (value.index() == 0 ? key : std::get<std::string>(value));
    cases.push_back(
        {.name = std::move(name), .op = op, .attributes = std::move(attributes), .inputs = {a, b}});
  };
  const auto counted = [&](DType dtype, const Shape& shape) {
    return integers(dtype, shape, Draw::kSigned, 7);
  };
  for (const char* op : {"Add", "Sub", "Mul"})
    for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kInt8, DType::kInt16})
      add(op, dtype, counted(dtype, whole), counted(dtype, row));
  for (const DType dtype : {DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64}) {
    add("Add", dtype, integers(dtype, whole, Draw::kClass, 9),
        integers(dtype, row, Draw::kClass, 9));
    add("Div", dtype, integers(dtype, whole, Draw::kClass, 99),
        integers(dtype, row, Draw::kClass, 9));
    cases.back().inputs[1].draw = Draw::kFromOne;
    for (const char* direction : {"LEFT", "RIGHT"})
      add("BitShift", dtype, integers(dtype, whole, Draw::kClass, 9),
          integers(dtype, row, Draw::kClass, 4), {{"direction", direction}});
  }
  for (const DType dtype : {DType::kFloat64, DType::kFloat16, DType::kBFloat16})
    add("Add", dtype, numbers(dtype, whole, Draw::kHalves), numbers(dtype, row, Draw::kHalves));
  for (const DType dtype : {DType::kInt32, DType::kInt64}) {
    for (const char* op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
      add(op, dtype, counted(dtype, whole), counted(dtype, row));
    for (const char* op : {"Div", "Mod"}) {
      add(op, dtype, counted(dtype, whole), integers(dtype, row, Draw::kFromOne, 5));
    }
    add("Mod", dtype, counted(dtype, whole), integers(dtype, row, Draw::kFromOne, 5),
        {{"fmod", int64_t{1}}});
    add("Pow", dtype, counted(dtype, whole), integers(dtype, row, Draw::kClass, 4));
  }
  for (const DType dtype : {DType::kFloat32, DType::kInt64, DType::kUint64})
    for (const char* op : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
      if (is_floating(dtype))
        add(op, dtype, numbers(dtype, whole, Draw::kHalves), numbers(dtype, row, Draw::kHalves));
      else
        add(op, dtype, integers(dtype, whole, Draw::kClass, 4),
            integers(dtype, row, Draw::kClass, 4));
  for (const char* op : {"And", "Or", "Xor", "Equal"})
    add(op, DType::kBool, integers(DType::kBool, whole, Draw::kClass, 2),
        integers(DType::kBool, row, Draw::kClass, 2));
}

// Of any number of inputs. Halves are apart from every number of a ladder.
void add_variadic_cases(std::vector<OperatorCase>& cases) {
  const Shape whole{kBatch, 4, 3};
  const auto add = [&](std::string name, std::string op, std::vector<CaseInput> inputs) {
    cases.push_back({.name = std::move(name),
                     .op = std::move(op),
                     .inputs = std::move(inputs),
                     .epsilon = 0.02});
  };
  for (const char* op : {"Sum", "Mean", "Max", "Min"}) {
    const std::string name = op;
    add(name + "_of_one", op, {activation(whole, Draw::kApart)});
    add(name + "_of_two_images", op,
        {activation({kBatch, 4, 3, 2}, Draw::kApart),
         activation({kBatch, 4, 3, 2}, Draw::kHalves)});
    add(name + "_of_three", op,
        {activation(whole, Draw::kApart), parameter({4, 1}, Draw::kHalves),
         activation({kBatch, 1, 3}, Draw::kApart)});
    add(name + "_of_channels", op,
        {activation({kBatch, 4, 3, 2}, Draw::kApart), parameter({4, 1, 1}, Draw::kHalves)});
    add(name + "_of_float64", op,
        {numbers(DType::kFloat64, whole, Draw::kHalves), numbers(DType::kFloat64, {3})});
  }
  for (const char* op : {"Max", "Min"})
    add(std::string(op) + "_of_int64", op,
        {integers(DType::kInt64, whole, Draw::kSigned, 9),
         integers(DType::kInt64, {3}, Draw::kSigned, 9)});
}

void add_where_cases(std::vector<OperatorCase>& cases) {
  const auto add = [&](std::string name, const Shape& condition, CaseInput x, CaseInput y) {
    cases.push_back({.name = "Where_" + std::move(name),
                     .op = "Where",
                     .inputs = {integers(DType::kBool, condition, Draw::kClass, 2), x, y}});
  };
  add("of_one_shape", {kBatch, 4, 3}, activation({kBatch, 4, 3}), activation({kBatch, 4, 3}));
  add("of_a_mask", {4, 4}, activation({kBatch, 2, 4, 4}), parameter({}));
  add("of_rows", {kBatch, 4, 1}, activation({kBatch, 1, 3}), parameter({3}));
  add("or_a_number", {kBatch, 4, 3}, parameter({1}), activation({kBatch, 4, 3}));
  for (const DType dtype : {DType::kInt64, DType::kInt16, DType::kUint8})
    add("of_" + std::string(to_string(dtype)), {kBatch, 4, 3},
        integers(dtype, {kBatch, 4, 3}, Draw::kClass, 9), integers(dtype, {3}, Draw::kClass, 9));
}

}  // namespace

std::vector<OperatorCase> broadcast_cases() {
  std::vector<OperatorCase> cases;
  add_variadic_cases(cases);
  add_where_cases(cases);
  add_smooth_cases(cases);
  add_plain_cases(cases);
  return cases;
}

}  // namespace kerf::ops
