// The registry of all operators: none without a case in the suite, none without a kernel.
#include <gmock/gmock.h>

#include <set>

#include "ops/kernel.h"
#include "tests/conformance/operator_case.h"
#include "tests/support/errors.h"

namespace kerf::ops {
namespace {

using testing::HasSubstr;
using tests::error_of;

TEST(OperatorRegistry, EveryOperatorHasACaseAndAKernelOnTheCpu) {
  std::set<std::string> covered;
  for (const auto& scene : operator_cases()) covered.insert(scene.op);
  EXPECT_THAT(operator_names(), testing::ElementsAreArray(covered));
  for (const auto& name : operator_names())
    EXPECT_TRUE(has_kernel(name, runtime::DeviceKind::kCpu)) << name;
}

// Those that take a model's time.
TEST(OperatorRegistry, TheCostsOfHeavyOperatorsAreCountedByHand) {
  std::set<std::string> counted;
  for (const auto& scene : operator_cases())
    if (!scene.flops.empty()) counted.insert(scene.op);
  EXPECT_THAT(counted, testing::ElementsAre("Attention", "Conv", "ConvTranspose", "Einsum", "GRU",
                                            "Gemm", "LSTM", "MatMul", "RNN"));
}

TEST(OperatorRegistry, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  const auto error = error_of([] { (void)find_operator("Convolve"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_THAT(error->message(), testing::AllOf(HasSubstr("Convolve"), HasSubstr("Conv,")));
}

}  // namespace
}  // namespace kerf::ops
