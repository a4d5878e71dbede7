// The registry of all operators: none without a case in the suite, none without a kernel, and no
// gradient that was not compared with PyTorch's.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

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
                                            "Gemm", "LRN", "LSTM", "MatMul", "RNN", "RecurrentCell",
                                            "RecurrentInputs"));
}

std::string gradient_name(const std::string& op, size_t input) {
  return format("{} input {}", op, input);
}

// Of tests/ops/torch, whose values torch_values_test.cc compares.
std::set<std::string> gradients_of_torch() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(KERF_TORCH_CASES)) {
    if (entry.path().extension() != ".txt") continue;
    std::ifstream file(entry.path());
    std::string op;
    for (std::string text; std::getline(file, text);) {
      std::istringstream line(text);
      std::string word;
      std::string name;
      size_t input = 0;
      line >> word;
      if (word == "case") line >> name >> op;
      if (word == "gradient" && line >> input) names.insert(gradient_name(op, input));
    }
  }
  return names;
}

// But that of Dropout, which PyTorch draws otherwise.
TEST(OperatorRegistry, GradientsAreComparedWithThoseOfPyTorch) {
  const std::set<std::string> compared = gradients_of_torch();
  std::set<std::string> others;
  for (const auto& scene : operator_cases()) {
    const auto op = bind(scene);
    for (size_t i = 0; i < op->inputs().size(); ++i) {
      const Operand& operand = op->inputs()[i];
      if (!operand.present || !(operand.in_input_gradient() || operand.in_weight_gradient()))
        continue;
      const std::string name = gradient_name(scene.op, i);
      if (!compared.contains(name)) others.insert(name);
    }
  }
  EXPECT_THAT(others, testing::ElementsAre("Dropout input 0"));
}

TEST(OperatorRegistry, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  const auto error = error_of([] { (void)find_operator("Convolve"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_THAT(error->message(), testing::AllOf(HasSubstr("Convolve"), HasSubstr("Conv,")));
}

}  // namespace
}  // namespace kerf::ops
