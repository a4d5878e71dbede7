// What every operator promises, on every device: its gradients are its derivatives, adding adds,
// parts of it make up the whole, nothing it does not keep is read, and equal calls give equal bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <ostream>
#include <random>
#include <set>

#include "tests/conformance/operator_case.h"
#include "tests/conformance/operator_runner.h"
#include "tests/support/errors.h"

namespace kerf::ops {
namespace {

using tests::error_of;

struct Param {
  OperatorCase scene;
  std::string device;
};

// NOLINTNEXTLINE(readability-identifier-naming): the name that GoogleTest looks for
void PrintTo(const Param& param, std::ostream* out) {
  *out << param.scene.name << " on " << param.device;
}

std::vector<Param> all_params() {
  std::vector<Param> params;
  for (const auto& device : runtime::device_names())
    for (const auto& scene : operator_cases()) params.push_back({scene, device});
  return params;
}

std::string name_of(const testing::TestParamInfo<Param>& info) {
  std::string name = info.param.scene.name + "_on_" + info.param.device;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

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

HostTensor draw(const CaseInput& input, int64_t samples, Dice& dice) {
  HostTensor tensor{input.spec.dtype, input.spec.shape.with_batch(samples), {}, {}};
  const int64_t count = tensor.shape.elements();
  const int64_t middle = count / 2;
  for (int64_t i = 0; i < count; ++i)
    if (input.draw == Draw::kClass)
      tensor.integers.push_back(dice.below(input.classes));
    else if (input.draw == Draw::kUniform)
      tensor.floats.push_back(dice.uniform());
    else
      tensor.floats.push_back(0.1F * (static_cast<float>(i - middle) + 0.5F));
  if (input.draw == Draw::kApart)
    for (int64_t i = count - 1; i > 0; --i)
      std::swap(tensor.floats[static_cast<size_t>(i)],
                tensor.floats[static_cast<size_t>(dice.below(i + 1))]);
  return tensor;
}

double dot(const HostTensor& a, const HostTensor& b) {
  return std::inner_product(a.floats.begin(), a.floats.end(), b.floats.begin(), 0.0);
}

// The largest difference, relative to the largest entry.
double difference(const HostTensor& a, const HostTensor& b) {
  EXPECT_EQ(to_string(a.shape), to_string(b.shape));
  double most = 1e-6;
  double apart = 0;
  for (size_t i = 0; i < a.floats.size(); ++i) {
    most = std::max({most, std::abs(double{a.floats[i]}), std::abs(double{b.floats[i]})});
    apart = std::max(apart, std::abs(double{a.floats[i]} - double{b.floats[i]}));
  }
  return apart / most;
}

class OperatorConformance : public testing::TestWithParam<Param> {
 protected:
  void SetUp() override {
    if (device_->kind() == runtime::DeviceKind::kCpu) return;
    if (const auto error = error_of([&] { (void)runner(); })) GTEST_SKIP() << error->what();
  }
  const OperatorCase& scene() const { return GetParam().scene; }
  const Operator& op() const { return op_; }

  std::unique_ptr<OperatorRunner> runner() {
    return std::make_unique<OperatorRunner>(op_, scene().attributes, *device_);
  }
  std::vector<ValueSpec> specs() const {
    std::vector<ValueSpec> result;
    for (const auto& input : scene().inputs) result.push_back(input.spec);
    return result;
  }
  ValueSpec output() const { return op_.infer(scene().attributes, specs())[0]; }
  Where whole(int64_t samples) const {
    const Shape shape = output().shape.with_batch(samples);
    return {Box::whole(shape.rank()), shape, 0, true, 4.0};
  }
  std::vector<HostTensor> inputs(int64_t samples, uint64_t seed) const {
    Dice dice(seed);
    std::vector<HostTensor> result;
    for (const auto& input : scene().inputs) result.push_back(draw(input, samples, dice));
    return result;
  }
  // What flows back into the output: random, or 1 into a loss.
  HostTensor upstream(const Shape& shape, uint64_t seed) const {
    Dice dice(seed);
    HostTensor tensor = zeros(shape);
    for (auto& x : tensor.floats) x = op_.is_loss() ? 1 : dice.uniform();
    return tensor;
  }
  std::vector<Asked> ask(const std::vector<HostTensor>& values, bool parameters,
                         bool accumulate = false) const {
    std::vector<Asked> asked;
    for (size_t i = 0; i < values.size(); ++i)
      if (scene().inputs[i].parameter == parameters && values[i].dtype == DType::kFloat32)
        asked.push_back({static_cast<int>(i), accumulate, upstream(values[i].shape, 99 + i)});
    return asked;
  }

  std::optional<std::vector<HostTensor>> assembled(int axis, const std::vector<HostTensor>& values,
                                                   const HostTensor& dy,
                                                   const std::vector<IndexSet>& sets);

  const Operator& op_ = find_operator(GetParam().scene.op);
  std::unique_ptr<runtime::Device> device_ = runtime::make_device(GetParam().device);
};

TEST_P(OperatorConformance, GradientsAreDerivatives) {
  const auto kernel = runner();
  auto values = inputs(scene().samples, 1);
  const Where where = whole(scene().samples);
  const HostTensor dy = upstream(where.shape, 2);
  const auto loss = [&] { return dot(dy, kernel->forward(values, where)); };
  for (const bool parameters : {false, true}) {
    const auto asked = ask(values, parameters);
    if (asked.empty()) continue;
    const auto gradients = kernel->gradient(values, where, dy, asked, parameters);
    for (size_t t = 0; t < asked.size(); ++t) {
      auto& x = values[static_cast<size_t>(asked[t].input)].floats;
      const auto stride = std::max<size_t>(1, x.size() / 97);
      for (size_t i = 0; i < x.size(); i += stride) {
        const float here = x[i];
        x[i] = here + static_cast<float>(scene().epsilon);
        const double up = loss();
        x[i] = here - static_cast<float>(scene().epsilon);
        const double down = loss();
        x[i] = here;
        const double expected = (up - down) / (2 * scene().epsilon);
        EXPECT_NEAR(gradients[t].floats[i], expected, 2e-3 * std::max(1.0, std::abs(expected)))
            << "input " << asked[t].input << ", element " << i;
      }
    }
  }
}

TEST_P(OperatorConformance, AccumulatingAddsToWhatIsThere) {
  const auto kernel = runner();
  const auto values = inputs(scene().samples, 3);
  const Where where = whole(scene().samples);
  const HostTensor dy = upstream(where.shape, 4);
  for (const bool parameters : {false, true}) {
    const auto asked = ask(values, parameters, true);
    if (asked.empty()) continue;
    const auto alone = kernel->gradient(values, where, dy, ask(values, parameters), parameters);
    const auto added = kernel->gradient(values, where, dy, asked, parameters);
    for (size_t t = 0; t < asked.size(); ++t) {
      HostTensor expected = asked[t].before;
      for (size_t i = 0; i < expected.floats.size(); ++i) expected.floats[i] += alone[t].floats[i];
      EXPECT_LT(difference(added[t], expected), 1e-6) << "input " << asked[t].input;
    }
  }
}

TEST_P(OperatorConformance, EqualCallsGiveEqualBitsWhateverRanBefore) {
  const auto values = inputs(scene().samples, 5);
  const Where where = whole(scene().samples);
  const HostTensor dy = upstream(where.shape, 6);
  const auto everything = [&](OperatorRunner& kernel) {
    auto results = std::vector{kernel.forward(values, where)};
    for (const bool parameters : {false, true})
      for (auto& gradient : kernel.gradient(values, where, dy, ask(values, parameters), parameters))
        results.push_back(std::move(gradient));
    return results;
  };
  const auto fresh = everything(*runner());
  const auto used = runner();
  (void)used->forward(inputs(scene().samples + 2, 7), whole(scene().samples + 2));
  (void)everything(*used);
  const auto again = everything(*used);
  ASSERT_EQ(fresh.size(), again.size());
  for (size_t i = 0; i < fresh.size(); ++i) EXPECT_EQ(fresh[i].floats, again[i].floats);
}

TEST_P(OperatorConformance, AnEmptyMicroBatchAddsNothing) {
  const auto kernel = runner();
  const auto values = inputs(0, 8);
  const Where where = whole(0);
  const HostTensor y = kernel->forward(values, where);
  for (const float x : y.floats) EXPECT_EQ(x, 0);  // a loss; all else is empty
  const HostTensor dy = upstream(where.shape, 9);
  for (const bool accumulate : {false, true}) {
    const auto asked = ask(values, true, accumulate);
    const auto results = kernel->gradient(values, where, dy, asked, true);
    for (size_t t = 0; t < asked.size(); ++t)
      EXPECT_EQ(results[t].floats,
                accumulate ? asked[t].before.floats : zeros(asked[t].before.shape).floats);
    (void)kernel->gradient(values, where, dy, ask(values, false, accumulate), false);
  }
}

// Three random parts of the feature axis, none of them contiguous in general.
std::vector<IndexSet> random_parts(int64_t extent, int64_t unit, Dice& dice) {
  std::vector<std::vector<int64_t>> parts(3);
  for (int64_t u = 0; u < extent / unit; ++u) {
    auto& part = parts[static_cast<size_t>(u < 3 ? u : dice.below(3))];
    for (int64_t i = 0; i < unit; ++i) part.push_back(u * unit + i);
  }
  std::vector<IndexSet> sets;
  for (const auto& part : parts)
    if (!part.empty()) sets.push_back(IndexSet::of(part));
  return sets;
}

// Forward of the boxes, put together, and the sum of their gradients; empty where the operator does
// not divide this axis so.
std::optional<std::vector<HostTensor>> OperatorConformance::assembled(
    int axis, const std::vector<HostTensor>& values, const HostTensor& dy,
    const std::vector<IndexSet>& sets) {
  const auto kernel = runner();
  const Where where = whole(scene().samples);
  std::vector<HostTensor> sums{zeros(where.shape)};  // the output, then a gradient per input
  for (const auto& value : values) sums.push_back(zeros(value.shape));
  for (const auto& set : sets) {
    Where part = where;
    part.box.axes[static_cast<size_t>(axis)] = set;
    const SplitRule rule = op().split(scene().attributes, specs(), output(), part.box);
    if (rule.kind != SplitRule::Kind::kBoxes) return std::nullopt;
    std::vector<HostTensor> pieces;
    for (size_t i = 0; i < values.size(); ++i)
      pieces.push_back(cut(values[i], rule.inputs.at(i).box));
    paste(kernel->forward(pieces, part), part.box, sums[0], false);
    for (const bool parameters : {false, true}) {
      const auto asked = ask(pieces, parameters);
      const auto results = kernel->gradient(pieces, part, cut(dy, part.box), asked, parameters);
      for (size_t t = 0; t < asked.size(); ++t) {
        const auto input = static_cast<size_t>(asked[t].input);
        paste(results[t], rule.inputs[input].box, sums[input + 1],
              rule.inputs[input].gradient_partial);
      }
    }
  }
  return sums;
}

TEST_P(OperatorConformance, PartsMakeUpTheWhole) {
  const auto values = inputs(scene().samples, 10);
  const Where where = whole(scene().samples);
  const HostTensor dy = upstream(where.shape, 11);
  const auto kernel = runner();
  const HostTensor y = kernel->forward(values, where);
  bool feature_axis_divides = false;
  for (int axis = 1; axis < where.shape.rank(); ++axis) {
    const bool feature = axis == op().feature_axis();
    Dice dice(12);
    const auto sums = assembled(axis, values, dy,
                                random_parts(where.shape[axis], feature ? scene().unit : 1, dice));
    if (!sums) continue;
    feature_axis_divides = feature_axis_divides || feature;
    EXPECT_LT(difference((*sums)[0], y), 1e-5) << "axis " << axis;
    for (const bool parameters : {false, true}) {
      const auto asked = ask(values, parameters);
      const auto expected = kernel->gradient(values, where, dy, asked, parameters);
      for (size_t t = 0; t < asked.size(); ++t)
        EXPECT_LT(difference((*sums)[static_cast<size_t>(asked[t].input) + 1], expected[t]), 1e-5)
            << "axis " << axis << ", input " << asked[t].input;
    }
  }
  EXPECT_EQ(feature_axis_divides, scene().divides);
}

TEST_P(OperatorConformance, TheWholeNeedsTheWholeAndLeavesNothingPartial) {
  const SplitRule rule =
      op().split(scene().attributes, specs(), output(), Box::whole(output().shape.rank()));
  ASSERT_EQ(rule.kind, SplitRule::Kind::kBoxes);
  ASSERT_EQ(rule.inputs.size(), scene().inputs.size());
  for (const auto& input : rule.inputs) {
    EXPECT_TRUE(input.box.is_whole());
    EXPECT_FALSE(input.gradient_partial);
  }
}

// A box that splits refuses or gathers says why, whatever the axis.
TEST_P(OperatorConformance, EveryAnswerToAWantedBoxIsUsable) {
  const Shape shape = output().shape;
  for (int axis = 1; axis < shape.rank(); ++axis) {
    Box box = Box::whole(shape.rank());
    box.axes[static_cast<size_t>(axis)] = IndexSet::range(0, 1);
    const SplitRule rule = op().split(scene().attributes, specs(), output(), box);
    if (rule.kind == SplitRule::Kind::kBoxes) {
      ASSERT_EQ(rule.inputs.size(), scene().inputs.size());
      for (size_t i = 0; i < rule.inputs.size(); ++i)
        EXPECT_EQ(rule.inputs[i].box.axes.size(),
                  static_cast<size_t>(scene().inputs[i].spec.shape.rank()));
    } else {
      EXPECT_FALSE(rule.reason.empty());
      EXPECT_EQ(rule.kind == SplitRule::Kind::kGather, rule.axis == axis);
    }
  }
}

TEST_P(OperatorConformance, CostsAreFiniteAndGrowWithTheBatch) {
  const auto cost = [&](int64_t samples) {
    std::vector<ValueSpec> in = specs();
    for (auto& spec : in) spec.shape = spec.shape.with_batch(samples);
    const std::vector<ValueSpec> out{{output().dtype, output().shape.with_batch(samples)}};
    return op().cost(scene().attributes, in, out);
  };
  const Cost one = cost(1);
  const Cost ten = cost(10);
  const auto fields = [](const Cost& c) {
    return std::vector{c.forward_flops, c.input_gradient_flops, c.weight_gradient_flops,
                       c.forward_bytes, c.input_gradient_bytes, c.weight_gradient_bytes};
  };
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_TRUE(std::isfinite(fields(one)[i]));
    EXPECT_GE(fields(one)[i], 0);
    EXPECT_LE(fields(ten)[i], 10 * fields(one)[i]);
  }
  EXPECT_EQ(op().aliases(), one.forward_flops == 0);
  EXPECT_EQ(ten.forward_flops, 10 * one.forward_flops);
}

// Stands for a device that nobody wrote kernels for.
class StrangeDevice final : public runtime::Device {
 public:
  runtime::DeviceKind kind() const override { return static_cast<runtime::DeviceKind>(77); }
  std::string name() const override { return "strange:0"; }
  std::string description() const override { return "no such thing"; }
  runtime::Buffer allocate(size_t) override { return {}; }
  std::unique_ptr<runtime::Stream> make_stream() override { return nullptr; }
  std::unique_ptr<runtime::Event> make_event() override { return nullptr; }
  runtime::MemoryStats memory() const override { return {}; }
  void reset_peak() override {}

 protected:
  void release(void*, size_t) noexcept override {}
};

TEST_P(OperatorConformance, ADeviceWithoutKernelsIsNamed) {
  StrangeDevice device;
  const auto error = error_of([&] { (void)op().make_kernel(scene().attributes, device); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->message(),
              testing::AllOf(testing::HasSubstr(scene().op), testing::HasSubstr("strange:0")));
}

TEST_P(OperatorConformance, NodesAreChecked) {
  EXPECT_FALSE(error_of([&] { check_node(op(), scene().attributes, scene().inputs.size()); }));
  EXPECT_EQ(error_of([&] { check_node(op(), {}, 0); })->code(), ErrorCode::kUsage);
  EXPECT_EQ(error_of([&] { check_node(op(), {}, op().input_names().size() + 1); })->code(),
            ErrorCode::kUsage);
  const auto unknown = error_of([&] {
    check_node(op(), {{"colour", int64_t{1}}}, scene().inputs.size());
  });
  ASSERT_TRUE(unknown);
  EXPECT_THAT(unknown->message(), testing::HasSubstr("colour"));
}

INSTANTIATE_TEST_SUITE_P(Operators, OperatorConformance, testing::ValuesIn(all_params()), name_of);

TEST(OperatorRegistry, EveryOperatorHasACase) {
  std::set<std::string> covered;
  for (const auto& scene : operator_cases()) covered.insert(scene.op);
  EXPECT_THAT(operator_names(), testing::ElementsAreArray(covered));
}

TEST(OperatorRegistry, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  const auto error = error_of([] { (void)find_operator("Convolve"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_THAT(error->message(),
              testing::AllOf(testing::HasSubstr("Convolve"), testing::HasSubstr("Conv,")));
}

}  // namespace
}  // namespace kerf::ops
