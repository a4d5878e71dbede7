// Forward results against plain loops in float64, within what rounding allows.
#include "tests/conformance/operator_reference.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <iterator>
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

class OperatorReference : public OperatorSuite {};

void expect_reference(const HostTensor& y, const Reference& reference) {
  ASSERT_EQ(y.floats.size(), reference.values.size());
  // Sums of n terms in any order err by n roundings of the terms' magnitude at most (Higham).
  const double rounding = static_cast<double>(reference.terms + 3) * 0x1p-24;
  for (size_t i = 0; i < y.floats.size(); ++i) {
    const bool whole = !y.integers.empty();
    const double given = whole ? static_cast<double>(y.integers[i]) : double{y.floats[i]};
    ASSERT_LE(std::abs(given - reference.values[i]), whole ? 0 : rounding * reference.magnitudes[i])
        << "element " << i << ": " << given << ", not " << reference.values[i];
  }
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
