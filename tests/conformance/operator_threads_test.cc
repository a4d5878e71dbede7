// Kernels give the same on two and three threads as on one: the same bits, but where oneDNN divides
// a sum between threads.
#include <gmock/gmock.h>

#include <bit>
#include <set>

#include "tests/conformance/operator_fixture.h"

namespace kerf::ops {
namespace {

class OperatorThreads : public testing::TestWithParam<ThreadCase> {};

// What a second thread is worth while for, whatever a kernel divides.
constexpr int64_t kManyElements = 1 << 17;

int64_t elements_of_sample(const BoundOperator& op) {
  int64_t most = 1;
  const auto look = [&](const Shape& shape) {
    if (shape.batched()) most = std::max(most, shape.with_batch(1).elements());
  };
  for (const Operand& input : op.inputs())
    if (input.present) look(input.spec.shape);
  for (const ValueSpec& output : op.outputs()) look(output.shape);
  return most;
}

// The scenes made for it, and of every other operator its first case that has samples, of so many.
std::vector<ThreadCase> scenes_of_threads() {
  std::vector<ThreadCase> scenes = thread_cases();
  const std::set<std::string> sums_of_library{
      "ConvTranspose", "Einsum", "GRU", "LSTM", "RNN", "RecurrentCell", "RecurrentInputs"};
  std::set<std::string> covered;
  for (const ThreadCase& each : scenes) covered.insert(each.scene.op);
  for (OperatorCase& scene : operator_cases()) {
    const auto op = bind(scene);
    if (!op->space().extents().batched() || !covered.insert(scene.op).second) continue;
    scene.samples = kManyElements / elements_of_sample(*op) + 1;
    scene.name += "_of_many_samples";
    const bool same_bits = !sums_of_library.contains(scene.op);
    scenes.push_back({std::move(scene), same_bits});
  }
  return scenes;
}

std::vector<uint32_t> bits_of(const std::vector<float>& floats) {
  std::vector<uint32_t> bits;
  for (const float x : floats) bits.push_back(std::bit_cast<uint32_t>(x));
  return bits;
}

std::string name_of_scene(const testing::TestParamInfo<ThreadCase>& info) {
  return info.param.scene.name;
}

TEST_P(OperatorThreads, SeveralGiveWhatOneGives) {
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
  for (const int threads : {2, 3}) {
    SCOPED_TRACE(format("{} threads", threads));
    const auto several = run(threads);
    ASSERT_EQ(one.size(), several.size());
    for (size_t i = 0; i < one.size(); ++i) {
      if (GetParam().same_bits) {
        EXPECT_TRUE(bits_of(one[i].floats) == bits_of(several[i].floats)) << "result " << i;
        EXPECT_EQ(one[i].integers, several[i].integers) << "result " << i;
      } else {
        EXPECT_LT(difference(one[i], several[i]), 1e-5) << "result " << i;
      }
    }
  }
}

// The last micro-batch of an epoch: of one sample, with more threads than there are samples; and of
// whole vectors of samples, which other kernels may like than the planned number.
TEST_P(OperatorThreads, FewerSamplesDoWithWhatManyWereGranted) {
  OperatorCase scene = GetParam().scene;
  const auto device = runtime::make_cpu_device();
  const auto op = bind(scene);
  for (const int64_t fewer : {int64_t{1}, (scene.samples - 1) / 16 * 16}) {
    if (fewer == 0) continue;
    const auto values = draw_inputs(scene, fewer, 33);
    const auto dy = draw_upstream(*op, fewer, 34);
    const Moment now{.samples = fewer, .normaliser = 4};
    const auto planned_for = [&](int64_t samples) {
      OperatorRunner kernel(op, *device, samples, 8);
      auto results = kernel.forward(values, now);
      for (auto& gradient : kernel.gradients(values, now, dy, ask(*op, values)))
        results.push_back(std::move(gradient));
      return results;
    };
    const auto alone = planned_for(fewer);
    const auto granted = planned_for(scene.samples);
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_LT(difference(alone[i], granted[i]), 1e-5) << "result " << i << " of " << fewer;
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, OperatorThreads, testing::ValuesIn(scenes_of_threads()),
                         name_of_scene);

TEST(OperatorScenes, OfThreadsAreOfEveryOperator) {
  const std::vector<std::string> names = operator_names();
  std::set<std::string> without(names.begin(), names.end());
  for (const ThreadCase& each : scenes_of_threads()) without.erase(each.scene.op);
  EXPECT_THAT(without, testing::IsEmpty());
}

}  // namespace
}  // namespace kerf::ops
