// Forward results against plain loops in float64, within what rounding allows.
#include "tests/conformance/operator_reference.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>

#include "tests/conformance/operator_fixture.h"

namespace kerf::ops {
namespace {

// Cases that have a reference.
std::vector<OperatorParam> referenced() {
  std::vector<OperatorParam> params;
  for (const OperatorParam& param : all_operator_params()) {
    const auto op = bind(param.scene);
    const auto inputs = draw_inputs(param.scene, 1, 1);
    if (reference_of(param.scene, inputs, op->outputs()[0].shape.with_batch(1)))
      params.push_back(param);
  }
  return params;
}

std::vector<OperatorParam> extremes() {
  std::vector<OperatorParam> params;
  for (const OperatorCase& scene : extreme_cases()) params.push_back({scene, "cpu"});
  return params;
}

class OperatorReference : public OperatorSuite {};

// As a number of a floating-point type holds it, and then float32, in which it is looked at.
double held(double x, DType type) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const double most = type == DType::kFloat16 ? 65504 : kMost;
  const int digits = type == DType::kFloat16 ? 11 : type == DType::kBFloat16 ? 8 : 24;
  if (!std::isfinite(x)) return x;
  int exponent = 0;
  const double fraction = std::nearbyint(std::ldexp(std::frexp(x, &exponent), digits));
  const double rounded = std::ldexp(fraction, exponent - digits);
  return std::abs(rounded) <= most
             ? rounded
             : std::copysign(std::numeric_limits<double>::infinity(), rounded);
}

void expect_integers(const HostTensor& y, const Reference& reference) {
  for (size_t i = 0; i < y.integers.size(); ++i) {
    const double wanted = reference.values[i];
    ASSERT_EQ(static_cast<double>(y.integers[i]), wanted) << "element " << i;
  }
}

void expect_floats(const HostTensor& y, const Reference& reference) {
  // Sums of n terms in any order err by n roundings of the terms' magnitude at most (Higham).
  const double rounding = static_cast<double>(reference.terms + 3) * 0x1p-24;
  for (size_t i = 0; i < y.floats.size(); ++i) {
    const double given = double{y.floats[i]};
    const double wanted = held(reference.values[i], y.dtype);
    const auto said = [&] { return format("element {}: {}, not {}", i, given, wanted); };
    if (!std::isfinite(wanted)) {
      ASSERT_TRUE(std::isnan(wanted) ? std::isnan(given) : given == wanted) << said();
      continue;
    }
    ASSERT_LE(std::abs(given - wanted), rounding * reference.magnitudes[i]) << said();
    ASSERT_TRUE(!reference.keeps_sign || std::signbit(given) == std::signbit(wanted)) << said();
  }
}

void expect_reference(const HostTensor& y, const Reference& reference) {
  if (!reference.integers.empty()) {
    ASSERT_EQ(y.integers, reference.integers);
    return;
  }
  ASSERT_EQ(y.floats.size(), reference.values.size());
  if (y.integers.empty())
    expect_floats(y, reference);
  else
    expect_integers(y, reference);
}

TEST_P(OperatorReference, ForwardIsWhatPlainLoopsCompute) {
  const auto values = draw_inputs(scene(), scene().samples, 41);
  OperatorRunner kernel = runner(scene().samples);
  const auto outputs = kernel.forward(values, moment(scene().samples));
  ASSERT_GE(outputs.size(), static_cast<size_t>(scene().outputs));
  for (int which = 0; which < scene().outputs; ++which) {
    const HostTensor& y = outputs[static_cast<size_t>(which)];
    const auto reference = reference_of(scene(), values, y.shape, which);
    ASSERT_TRUE(reference || which > 0);
    SCOPED_TRACE(format("output {}", which));
    if (reference) expect_reference(y, *reference);
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, OperatorReference, testing::ValuesIn(referenced()), name_of);
INSTANTIATE_TEST_SUITE_P(Extremes, OperatorReference, testing::ValuesIn(extremes()), name_of);

// A name that no operator has would ask for nothing.
TEST(OperatorExtremes, AreOfMostOperators) {
  std::set<std::string> ops;
  for (const OperatorCase& scene : extreme_cases()) ops.insert(scene.op);
  EXPECT_GE(ops.size(), 105U);
}

// This list may only become shorter.
TEST(OperatorReferences, AreMissingOfThese) {
  std::set<std::string> known;
  std::set<std::string> all;
  for (const OperatorCase& scene : operator_cases()) {
    const auto op = bind(scene);
    const auto inputs = draw_inputs(scene, 1, 1);
    for (int which = 0; which < scene.outputs; ++which) {
      const Shape shape = op->outputs()[static_cast<size_t>(which)].shape.with_batch(1);
      const std::string name = which == 0 ? scene.op : format("{} output {}", scene.op, which);
      all.insert(name);
      if (reference_of(scene, inputs, shape, which)) known.insert(name);
    }
  }
  std::vector<std::string> missing;
  std::set_difference(all.begin(), all.end(), known.begin(), known.end(),
                      std::back_inserter(missing));
  EXPECT_THAT(missing, testing::ElementsAre("Dropout", "Dropout output 1"));
}

}  // namespace
}  // namespace kerf::ops
