// Forward results against plain loops in float64, within what rounding allows.
#include "tests/conformance/operator_reference.h"

#include <cmath>

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

TEST_P(OperatorReference, ForwardIsWhatPlainLoopsCompute) {
  const auto values = draw_inputs(scene(), scene().samples, 41);
  OperatorRunner kernel = runner(scene().samples);
  const HostTensor y = kernel.forward(values, moment(scene().samples))[0];
  const auto reference = reference_of(scene(), values, y.shape);
  ASSERT_TRUE(reference);
  ASSERT_EQ(y.floats.size(), reference->values.size());
  // Sums of n terms in any order err by n roundings of the terms' magnitude at most (Higham).
  const double rounding = static_cast<double>(reference->terms + 3) * 0x1p-24;
  for (size_t i = 0; i < y.floats.size(); ++i)
    ASSERT_LE(std::abs(double{y.floats[i]} - reference->values[i]),
              rounding * reference->magnitudes[i])
        << "element " << i << ": " << y.floats[i] << ", not " << reference->values[i];
}

INSTANTIATE_TEST_SUITE_P(Operators, OperatorReference, testing::ValuesIn(referenced()), name_of);

TEST(OperatorReferences, CoverEveryOperatorThatTheyAreWrittenFor) {
  EXPECT_GE(referenced().size(), 25U);
}

}  // namespace
}  // namespace kerf::ops
