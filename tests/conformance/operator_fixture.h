// What the suites over all operators and devices share: a case on a device, and its numbers.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <random>
#include <string>
#include <string_view>

#include "tests/conformance/operator_case.h"
#include "tests/conformance/operator_runner.h"
#include "tests/support/async_device.h"

namespace kerf::ops {

struct OperatorParam {
  OperatorCase scene;
  std::string device;
};
// NOLINTNEXTLINE(readability-identifier-naming): the name that GoogleTest looks for
void PrintTo(const OperatorParam& param, std::ostream* out);
// Every case on every device of this host, and on the test device (tests/support/async_device.h).
std::vector<OperatorParam> all_operator_params();
inline constexpr std::string_view kAsyncTest = "async-test";
std::unique_ptr<runtime::Device> make_device(const std::string& name,
                                             const std::shared_ptr<tests::AsyncWorld>& world);
std::string name_of(const testing::TestParamInfo<OperatorParam>& info);
// Whether there is a kernel for the operator as it is bound, with its types.
bool has_kernel_for(const BoundOperator& op, runtime::Device& device);

// A generator with the same numbers in every standard library.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t limit) {
    return static_cast<int64_t>(engine_() % static_cast<uint64_t>(limit));
  }
  float uniform() { return static_cast<float>(below(1 << 20)) / (1 << 19) - 1; }

 private:
  std::mt19937_64 engine_;
};

HostTensor draw(const CaseInput& input, int64_t samples, Dice& dice);
std::vector<HostTensor> draw_inputs(const OperatorCase& scene, int64_t samples, uint64_t seed);
// What flows back into each output: random, or 1 into a loss.
std::vector<HostTensor> draw_upstream(const BoundOperator& op, int64_t samples, uint64_t seed);
// Every gradient that the operator's inputs want. Accumulating asks for those of W only.
enum class Ask : uint8_t { kAll, kAccumulating };
std::vector<Asked> ask(const BoundOperator& op, const std::vector<HostTensor>& inputs,
                       Ask what = Ask::kAll);

// What forward gives, and all gradients.
std::vector<HostTensor> outputs_and_gradients(OperatorRunner& kernel, const BoundOperator& op,
                                              const std::vector<HostTensor>& values,
                                              const Moment& now);

// The largest difference, relative to the largest entry; infinite where one has a NaN that the
// other has not, or another integer.
double difference(const HostTensor& a, const HostTensor& b);
void expect_same_bits(const std::vector<HostTensor>& got, const std::vector<HostTensor>& expected);

class OperatorSuite : public testing::TestWithParam<OperatorParam> {
 protected:
  void SetUp() override {
    if (!has_kernel_for(op(), *device_))
      GTEST_SKIP() << scene().op << " has no kernel for " << device_->name();
  }
  void TearDown() override {
    for (const std::string& report : world_->reports()) ADD_FAILURE() << report;
  }
  const OperatorCase& scene() const { return GetParam().scene; }
  const BoundOperator& op() const { return *op_; }
  OperatorRunner runner(int64_t largest) const { return {op_, *device_, largest}; }
  // The loss has a normaliser; all else ignores it.
  Moment moment(int64_t samples) const { return {.samples = samples, .normaliser = 4}; }

  std::shared_ptr<tests::AsyncWorld> world_ = std::make_shared<tests::AsyncWorld>(std::nullopt);
  std::unique_ptr<runtime::Device> device_ = make_device(GetParam().device, world_);
  std::shared_ptr<const BoundOperator> op_ = bind(scene());
};

}  // namespace kerf::ops
