// Kernels give the same on two threads as on one: the same bits, but where oneDNN divides a sum
// between threads.
#include "tests/conformance/operator_fixture.h"

namespace kerf::ops {
namespace {

class OperatorThreads : public testing::TestWithParam<ThreadCase> {};

std::string name_of_scene(const testing::TestParamInfo<ThreadCase>& info) {
  return info.param.scene.name;
}

TEST_P(OperatorThreads, TwoGiveWhatOneGives) {
  const OperatorCase& scene = GetParam().scene;
  const auto device = runtime::make_cpu_device();
  const auto op = bind(scene);
  const auto values = draw_inputs(scene, scene.samples, 31);
  const auto dy = draw_upstream(*op, scene.samples, 32);
  const Moment now{.samples = scene.samples, .normaliser = 4};
  const auto run = [&](int threads) {
    OperatorRunner kernel(op, *device, scene.samples, threads);
    auto results = kernel.forward(values, now);
    for (auto& gradient : kernel.gradients(values, now, dy, ask(*op, values)))
      results.push_back(std::move(gradient));
    for (auto& sum : kernel.gradients(values, now, dy, ask(*op, values, Ask::kAccumulating)))
      results.push_back(std::move(sum));
    return results;
  };
  const auto one = run(1);
  const auto two = run(2);
  ASSERT_EQ(one.size(), two.size());
  for (size_t i = 0; i < one.size(); ++i) {
    if (GetParam().same_bits) {
      EXPECT_EQ(one[i].floats, two[i].floats) << "result " << i;
    } else {
      EXPECT_LT(difference(one[i], two[i]), 1e-5) << "result " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, OperatorThreads, testing::ValuesIn(thread_cases()),
                         name_of_scene);

}  // namespace
}  // namespace kerf::ops
