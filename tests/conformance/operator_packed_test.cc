// What a kernel keeps of its parameters from call to call holds as long as their version, and no
// longer.
#include "tests/conformance/operator_fixture.h"

namespace kerf::ops {
namespace {

// The same activations, other parameters.
std::vector<HostTensor> with_other_parameters(const BoundOperator& op,
                                              std::vector<HostTensor> values,
                                              const std::vector<HostTensor>& others) {
  for (size_t i = 0; i < values.size(); ++i)
    if (const Role role = op.inputs()[i].role; role == Role::kParameter || role == Role::kFrozen)
      values[i] = others[i];
  return values;
}

class OperatorPacked : public OperatorSuite {};

TEST_P(OperatorPacked, FollowsTheVersionOfTheParameters) {
  const int64_t samples = scene().samples;
  const auto before = draw_inputs(scene(), samples, 42);
  const auto after = with_other_parameters(op(), before, draw_inputs(scene(), samples, 43));
  const auto of = [&](OperatorRunner& kernel, const auto& values, int64_t version) {
    Moment now = moment(samples);
    now.version = version;
    return outputs_and_gradients(kernel, op(), values, now);
  };
  OperatorRunner fresh_before = runner(samples);
  OperatorRunner fresh_after = runner(samples);
  const auto expected_before = of(fresh_before, before, 0);
  const auto expected_after = of(fresh_after, after, 0);
  OperatorRunner kernel = runner(samples);
  expect_same_bits(of(kernel, before, 1), expected_before);
  expect_same_bits(of(kernel, before, 1), expected_before);
  expect_same_bits(of(kernel, after, 2), expected_after);
  expect_same_bits(of(kernel, after, 2), expected_after);
  expect_same_bits(of(kernel, before, 0), expected_before);
  expect_same_bits(of(kernel, after, 0), expected_after);
}

INSTANTIATE_TEST_SUITE_P(Operators, OperatorPacked, testing::ValuesIn(all_operator_params()),
                         name_of);

// Else the suite above would prove nothing.
TEST(OperatorPacked, ConvolutionsOfManyChannelsKeepTheirWeights) {
  OperatorCase scene{
      .name = "Conv",
      .op = "Conv",
      .attributes = {{"auto_pad", "SAME_UPPER"}, {"channels_last", int64_t{1}}},
      .inputs = {activation({kBatch, 14, 14, 32}), parameter({32, 32, 3, 3}), parameter({32})},
      .samples = 4};
  const auto device = runtime::make_cpu_device();
  const auto op = bind(scene);
  OperatorRunner kernel(op, *device, scene.samples);
  const auto before = draw_inputs(scene, scene.samples, 44);
  auto after = before;
  after[1] = draw_inputs(scene, scene.samples, 45)[1];
  const Moment now{.samples = scene.samples, .version = 1};
  const auto expected = kernel.forward(before, now);
  expect_same_bits(kernel.forward(after, now), expected);
}

}  // namespace
}  // namespace kerf::ops
