#include "tests/conformance/operator_fixture.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "ops/arithmetic.h"
#include "tests/support/errors.h"

namespace kerf::ops {

void PrintTo(const OperatorParam& param, std::ostream* out) {
  *out << param.scene.name << " on " << param.device;
}

std::vector<OperatorParam> all_operator_params() {
  std::vector<OperatorParam> params;
  std::vector<std::string> devices = runtime::device_names();
  devices.emplace_back(kAsyncTest);
  for (const auto& device : devices)
    for (const auto& scene : operator_cases()) params.push_back({scene, device});
  return params;
}

std::string name_of(const testing::TestParamInfo<OperatorParam>& info) {
  std::string name = info.param.scene.name + "_on_" + info.param.device;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == '-'; }, '_');
  return name;
}

std::unique_ptr<runtime::Device> make_device(const std::string& name,
                                             const std::shared_ptr<tests::AsyncWorld>& world) {
  if (name != kAsyncTest) return runtime::make_device(name);
  return tests::make_async_device(world, {.capacity = 0, .begin_thread = [] { use_threads(1); }});
}

bool has_kernel_for(const BoundOperator& op, runtime::Device& device) {
  if (!has_kernel(op.name(), device.kind())) return false;
  const auto stream = device.make_stream();
  const auto bench = make_workbench(device, *stream);
  const Box everything = Box::whole(static_cast<int>(op.space().axes.size()));
  const auto error = tests::error_of([&] { (void)make_kernel({op, everything, 1, *bench}); });
  KERF_CHECK(!error || error->code() == ErrorCode::kUnavailable, "{}", error->message());
  return !error;
}

// Of 16 bits those of which sums are exact.
static float extreme_float(DType dtype, Dice& dice) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kAll[] = {std::numeric_limits<float>::quiet_NaN(),
                            kInfinity,
                            -kInfinity,
                            0,
                            -0.0F,
                            1,
                            -1,
                            0.5F,
                            -2.5F,
                            1000,
                            -1000,
                            1e30F,
                            -1e30F,
                            1e-30F,
                            -1e-30F};
  constexpr int64_t kOfShort = 9;
  return kAll[dice.below(size_of(dtype) == 2 ? kOfShort : std::ssize(kAll))];
}

// Its bits, of uint64.
static int64_t extreme_integer(DType dtype, Dice& dice) {
  const auto bits = static_cast<int>(8 * size_of(dtype));
  if (dtype == DType::kBool) return dice.below(2);
  const bool has_sign = dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt32 ||
                        dtype == DType::kInt64;
  const int64_t most = has_sign    ? static_cast<int64_t>(~uint64_t{0} >> (65 - bits))
                       : bits < 64 ? (int64_t{1} << bits) - 1
                                   : -1;
  const int64_t least = has_sign ? -most - 1 : 0;
  const int64_t near = bits < 64 ? 1 : 4096;  // apart in float64 too
  const int64_t all[] = {most, most - near, least, least + near, 0, 1, 2, 5, has_sign ? -1 : 3};
  return all[dice.below(std::ssize(all))];
}

HostTensor draw(const CaseInput& input, int64_t samples, Dice& dice) {
  HostTensor tensor{input.spec.dtype, input.spec.shape.with_batch(samples), {}, {}};
  const int64_t count = tensor.shape.elements();
  const int64_t middle = count / 2;
  for (int64_t i = 0; i < count; ++i) switch (input.draw) {
      case Draw::kClass:
        tensor.integers.push_back(dice.below(input.classes));
        break;
      case Draw::kFromOne:
        tensor.integers.push_back(1 + dice.below(input.classes));
        break;
      case Draw::kHalves:
        tensor.floats.push_back(static_cast<float>(dice.below(17) - 8) / 2);
        break;
      case Draw::kSigned:
        tensor.integers.push_back(dice.below(2 * input.classes) - input.classes);
        break;
      case Draw::kSpread:
        tensor.integers.push_back(input.classes * i + dice.below(input.classes));
        break;
      case Draw::kUniform:
        tensor.floats.push_back(dice.uniform());
        break;
      case Draw::kPositive:
        tensor.floats.push_back(1 + dice.uniform() / 2);
        break;
      case Draw::kInner:
        tensor.floats.push_back(dice.uniform() * 0.75F);
        break;
      case Draw::kAboveOne:
        tensor.floats.push_back(2 + dice.uniform() / 2);
        break;
      case Draw::kExtreme:
        if (is_floating(input.spec.dtype))
          tensor.floats.push_back(extreme_float(input.spec.dtype, dice));
        else
          tensor.integers.push_back(extreme_integer(input.spec.dtype, dice));
        break;
      case Draw::kApart:
        tensor.floats.push_back(0.1F * (static_cast<float>(i - middle) + 0.5F));
        break;
    }
  if (input.draw == Draw::kApart)
    for (int64_t i = count - 1; i > 0; --i)
      std::swap(tensor.floats[static_cast<size_t>(i)],
                tensor.floats[static_cast<size_t>(dice.below(i + 1))]);
  return tensor;
}

std::vector<HostTensor> draw_inputs(const OperatorCase& scene, int64_t samples, uint64_t seed) {
  Dice dice(seed);
  std::vector<HostTensor> result;
  for (const CaseInput& input : scene.inputs)
    result.push_back(input.present ? draw(input, samples, dice) : HostTensor{});
  return result;
}

std::vector<HostTensor> draw_upstream(const BoundOperator& op, int64_t samples, uint64_t seed) {
  Dice dice(seed);
  std::vector<HostTensor> result;
  for (const ValueSpec& output : op.outputs()) {
    if (!is_floating(output.dtype)) {  // nothing flows back
      result.push_back({output.dtype, output.shape.with_batch(samples), {}, {}});
      continue;
    }
    result.push_back(zeros(output.shape.with_batch(samples)));
    for (float& x : result.back().floats) x = op.is_loss() ? 1 : dice.uniform();
  }
  return result;
}

std::vector<Asked> ask(const BoundOperator& op, const std::vector<HostTensor>& inputs, Ask what) {
  std::vector<Asked> asked;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Operand& operand = op.inputs()[i];
    if (!operand.present) continue;
    if (what == Ask::kAll && (operand.in_input_gradient() || operand.in_weight_gradient()))
      asked.push_back({static_cast<int>(i), false, zeros(inputs[i].shape)});
    if (what == Ask::kAccumulating && operand.in_weight_gradient()) {
      Dice dice(99 + i);
      asked.push_back({static_cast<int>(i), true, zeros(inputs[i].shape)});
      for (float& x : asked.back().before.floats) x = dice.uniform();
    }
  }
  return asked;
}

std::vector<HostTensor> outputs_and_gradients(OperatorRunner& kernel, const BoundOperator& op,
                                              const std::vector<HostTensor>& values,
                                              const Moment& now) {
  auto all = kernel.forward(values, now);
  for (HostTensor& gradient :
       kernel.gradients(values, now, draw_upstream(op, now.samples, 41), ask(op, values)))
    all.push_back(std::move(gradient));
  return all;
}

double difference(const HostTensor& a, const HostTensor& b) {
  EXPECT_EQ(to_string(a.shape), to_string(b.shape));
  if (a.floats.size() != b.floats.size() || a.integers != b.integers)
    return std::numeric_limits<double>::infinity();
  double most = 1e-6;
  double apart = 0;
  for (size_t i = 0; i < a.floats.size(); ++i) {
    const double x = double{a.floats[i]};
    const double y = double{b.floats[i]};
    if (std::isnan(x) != std::isnan(y)) return std::numeric_limits<double>::infinity();
    if (std::isnan(x)) continue;
    most = std::max({most, std::abs(x), std::abs(y)});
    apart = std::max(apart, std::abs(x - y));
  }
  return apart / most;
}

void expect_same_bits(const std::vector<HostTensor>& got, const std::vector<HostTensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(difference(got[i], expected[i]), 0) << "result " << i;
}

}  // namespace kerf::ops
