// What every operator promises, on every device: its gradients are its derivatives, adding adds,
// nothing that it does not list is read, no memory is used but what was asked for, and equal calls
// give equal bits.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/conformance/operator_fixture.h"
#include "tests/support/errors.h"

namespace kerf::ops {
namespace {

using testing::HasSubstr;
using tests::error_of;

class OperatorConformance : public OperatorSuite {};

double dot(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum = std::inner_product(a[i].floats.begin(), a[i].floats.end(), b[i].floats.begin(), sum);
  return sum;
}

// Of each input, by which elements its gradient is compared with differences. The address sanitizer
// looks at what calls touch, which is the same in all of them; the numbers are the other builds'.
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kDifferences = 5;
#else
constexpr size_t kDifferences = 397;
#endif

// Evenly over all, and the largest.
std::vector<size_t> compared(const std::vector<float>& gradient) {
  const auto less = [](float a, float b) { return std::abs(a) < std::abs(b); };
  const auto largest = std::max_element(gradient.begin(), gradient.end(), less);
  std::vector<size_t> elements{static_cast<size_t>(largest - gradient.begin())};
  const auto stride = std::max<size_t>(1, gradient.size() / kDifferences);
  for (size_t i = 0; i < gradient.size(); i += stride)
    if (i != elements.front()) elements.push_back(i);
  return elements;
}

// The test device runs the kernels of the CPU, of which GradientsAreDerivatives looks at each: late
// and in another place, but to the same bits.
TEST_P(OperatorConformance, TheTestDeviceGivesTheBitsOfTheCpu) {
  if (GetParam().device != kAsyncTest) return;
  const auto values = draw_inputs(scene(), scene().samples, 1);
  const auto cpu = runtime::make_cpu_device();
  OperatorRunner at_once(op_, *cpu, scene().samples);
  OperatorRunner late = runner(scene().samples);
  const Moment now = moment(scene().samples);
  expect_same_bits(outputs_and_gradients(late, op(), values, now),
                   outputs_and_gradients(at_once, op(), values, now));
}

TEST_P(OperatorConformance, GradientsAreDerivatives) {
  if (GetParam().device == kAsyncTest) return;  // TheTestDeviceGivesTheBitsOfTheCpu
  OperatorRunner kernel = runner(scene().samples);
  auto values = draw_inputs(scene(), scene().samples, 1);
  const Moment now = moment(scene().samples);
  const auto dy = draw_upstream(op(), scene().samples, 2);
  const auto asked = ask(op(), values);
  const auto gradients = kernel.gradients(values, now, dy, asked);
  for (size_t t = 0; t < asked.size(); ++t) {
    auto& x = values[static_cast<size_t>(asked[t].input)].floats;
    double largest = 0;
    std::vector<std::pair<size_t, double>> expected;
    for (const size_t i : compared(gradients[t].floats)) {
      const float here = x[i];
      x[i] = here + static_cast<float>(scene().epsilon);
      const double up = dot(dy, kernel.forward(values, now));
      x[i] = here - static_cast<float>(scene().epsilon);
      const double down = dot(dy, kernel.forward(values, now));
      x[i] = here;
      expected.emplace_back(i, (up - down) / (2 * scene().epsilon));
      largest = std::max(largest, std::abs(expected.back().second));
    }
    EXPECT_GT(largest, 0) << "input " << asked[t].input;
    for (const auto& [i, derivative] : expected)
      EXPECT_NEAR(double{gradients[t].floats[i]}, derivative, 1e-3 * largest)
          << "input " << asked[t].input << ", element " << i;
  }
}

TEST_P(OperatorConformance, AccumulatingAddsToWhatIsThere) {
  const auto values = draw_inputs(scene(), scene().samples, 3);
  const auto asked = ask(op(), values, Ask::kAccumulating);
  if (asked.empty()) return;
  auto alone = asked;
  for (Asked& one : alone) one.accumulate = false;
  OperatorRunner kernel = runner(scene().samples);
  const Moment now = moment(scene().samples);
  const auto dy = draw_upstream(op(), scene().samples, 4);
  const auto terms = kernel.gradients(values, now, dy, alone);
  const auto sums = kernel.gradients(values, now, dy, asked);
  for (size_t t = 0; t < asked.size(); ++t) {
    HostTensor expected = asked[t].before;
    for (size_t i = 0; i < expected.floats.size(); ++i) expected.floats[i] += terms[t].floats[i];
    EXPECT_LT(difference(sums[t], expected), 1e-6) << "input " << asked[t].input;
  }
}

TEST_P(OperatorConformance, EqualCallsGiveEqualBitsWhateverRanBefore) {
  const int64_t largest = scene().samples + 2;
  const auto values = draw_inputs(scene(), scene().samples, 5);
  const auto more = draw_inputs(scene(), largest, 7);
  const auto everything = [&](OperatorRunner& kernel) {
    const Moment now = moment(scene().samples);
    auto results = kernel.forward(values, now);
    const auto gradients =
        kernel.gradients(values, now, draw_upstream(op(), scene().samples, 6), ask(op(), values));
    results.insert(results.end(), gradients.begin(), gradients.end());
    return results;
  };
  OperatorRunner first = runner(largest);
  const auto fresh = everything(first);
  OperatorRunner used = runner(largest);
  (void)used.forward(more, moment(largest));
  (void)everything(used);
  const auto again = everything(used);
  ASSERT_EQ(fresh.size(), again.size());
  for (size_t i = 0; i < fresh.size(); ++i) EXPECT_EQ(fresh[i].floats, again[i].floats);
}

// Whether any of its iterations are of samples; what works on parameters alone has none.
bool counts_samples(const BoundOperator& op) { return op.space().extents().batched(); }

TEST_P(OperatorConformance, AnEmptyMicroBatchAddsNothing) {
  if (!counts_samples(op())) return;
  OperatorRunner kernel = runner(scene().samples);
  const auto values = draw_inputs(scene(), 0, 8);
  const auto outputs = kernel.forward(values, moment(0));
  for (size_t i = 0; i < outputs.size(); ++i)
    EXPECT_EQ(outputs[i].floats, zeros(outputs[i].shape).floats) << "output " << i;
  const auto dy = draw_upstream(op(), 0, 9);
  const auto fresh = ask(op(), values);
  const auto zero = kernel.gradients(values, moment(0), dy, fresh);
  for (size_t t = 0; t < fresh.size(); ++t)
    EXPECT_EQ(zero[t].floats, zeros(fresh[t].before.shape).floats) << "input " << fresh[t].input;
  const auto sums = ask(op(), values, Ask::kAccumulating);
  const auto same = kernel.gradients(values, moment(0), dy, sums);
  for (size_t t = 0; t < sums.size(); ++t)
    EXPECT_EQ(same[t].floats, sums[t].before.floats) << "input " << sums[t].input;
}

TEST_P(OperatorConformance, WritingOverAnInputGivesTheSameBits) {
  const auto values = draw_inputs(scene(), scene().samples, 13);
  OperatorRunner kernel = runner(scene().samples);
  const auto apart = kernel.forward(values, moment(scene().samples));
  for (int i = 0; i < static_cast<int>(values.size()); ++i) {
    if (!op().has(i) || !op().may_overwrite(i)) continue;
    Moment over = moment(scene().samples);
    over.in_place = i;
    EXPECT_EQ(kernel.forward(values, over)[0].floats, apart[0].floats) << "input " << i;
  }
}

TEST_P(OperatorConformance, CostsGrowWithTheBatch) {
  const Box everything = Box::whole(static_cast<int>(op().space().axes.size()));
  const auto cost = [&](int64_t samples) {
    const Cost c = op().cost(local_specs(op(), everything, samples, samples));
    return std::vector{c.forward_flops, c.input_gradient_flops, c.weight_gradient_flops,
                       c.forward_bytes, c.input_gradient_bytes, c.weight_gradient_bytes};
  };
  const auto one = cost(1);
  const auto ten = cost(10);
  EXPECT_EQ(op().aliases(), one[3] == 0);
  if (op().aliases()) {
    EXPECT_EQ(one[0], 0);
  }
  if (!counts_samples(op())) {
    EXPECT_EQ(ten, one);
    return;
  }
  EXPECT_EQ(ten[0], 10 * one[0]);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_GE(one[i], 0) << "field " << i;
    EXPECT_LE(ten[i], 10 * one[i]) << "field " << i;
    // What W does with sums that it was handed is the same for any batch.
    const bool handed = op().handed_bytes(local_specs(op(), everything, 1, 1)) > 0 && i % 3 == 2;
    EXPECT_TRUE(handed ? ten[i] >= one[i] : (ten[i] > one[i]) == (one[i] > 0)) << "field " << i;
  }
}

TEST_P(OperatorConformance, CostsAreThoseThatWereCountedByHand) {
  if (scene().flops.empty()) return;
  const Box everything = Box::whole(static_cast<int>(op().space().axes.size()));
  const Cost cost = op().cost(local_specs(op(), everything, 1, 1));
  EXPECT_THAT(scene().flops, testing::ElementsAre(cost.forward_flops, cost.input_gradient_flops,
                                                  cost.weight_gradient_flops));
}

// Stands for a device that nobody wrote kernels for.
class StrangeDevice final : public runtime::Device {
 public:
  runtime::DeviceKind kind() const override { return static_cast<runtime::DeviceKind>(77); }
  std::string name() const override { return "strange:0"; }
  std::string description() const override { return "no such thing"; }
  runtime::Buffer allocate(size_t) override { return {}; }
  runtime::PinnedMemory allocate_pinned(size_t) override { return {}; }
  std::unique_ptr<runtime::Stream> make_stream() override { return nullptr; }
  std::unique_ptr<runtime::Event> make_event() override { return nullptr; }
  std::unique_ptr<runtime::Timeline> make_timeline(runtime::Stream&) override { return nullptr; }
  runtime::MemoryStats memory() const override { return {}; }
  void reset_peak() override {}
  void cap_memory(size_t) override {}

 protected:
  void release(void*, size_t) noexcept override {}
};

TEST_P(OperatorConformance, ADeviceWithoutKernelsIsNamed) {
  StrangeDevice device;
  const auto stream = runtime::make_cpu_device()->make_stream();
  EXPECT_FALSE(has_kernel(scene().op, device.kind()));
  const auto no_bench = error_of([&] { (void)make_workbench(device, *stream); });
  ASSERT_TRUE(no_bench);
  EXPECT_EQ(no_bench->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(no_bench->message(), HasSubstr("strange:0"));
  const auto bench = make_cpu_workbench(device, *stream);
  const auto error = error_of([&] { (void)make_kernel({op(), {}, 1, *bench}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->message(), testing::AllOf(HasSubstr(scene().op), HasSubstr("strange:0")));
}

TEST_P(OperatorConformance, NodesAreChecked) {
  OperatorCase none = scene();
  none.inputs.clear();
  const auto empty = error_of([&] { (void)bind(none); });
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->code(), ErrorCode::kUsage);
  OperatorCase outputs = scene();
  outputs.outputs = 100;
  if (find_operator(scene().op).outputs.back().count != FormalOperand::Count::kVariadic) {
    const auto many = error_of([&] { (void)bind(outputs); });
    ASSERT_TRUE(many);
    EXPECT_EQ(many->code(), ErrorCode::kUsage);
  }
  OperatorCase painted = scene();
  painted.attributes["colour"] = int64_t{1};
  const auto unknown = error_of([&] { (void)bind(painted); });
  ASSERT_TRUE(unknown);
  EXPECT_THAT(unknown->message(), HasSubstr("colour"));
}

INSTANTIATE_TEST_SUITE_P(Operators, OperatorConformance, testing::ValuesIn(all_operator_params()),
                         name_of);

}  // namespace
}  // namespace kerf::ops
