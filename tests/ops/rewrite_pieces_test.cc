// What divides batch normalisation and cross-entropy, composed by hand over shares of samples or of
// classes, against the operators that compute the whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/conformance/operator_runner.h"
#include "tests/support/errors.h"

namespace kerf::ops {
namespace {

constexpr int64_t kRows = 7;

struct Value {
  Shape shape;
  Role role = Role::kActivation;
  DType dtype = DType::kFloat32;
};

std::shared_ptr<const BoundOperator> node(const std::string& op, const std::vector<Value>& inputs,
                                          const Attributes& attributes = {}, int outputs = 1) {
  NodeFacts facts;
  facts.attributes = attributes;
  facts.outputs = outputs;
  for (const Value& value : inputs)
    facts.inputs.push_back({{value.dtype, value.shape},
                            value.role,
                            value.role == Role::kActivation || value.role == Role::kParameter});
  return bind_operator(find_operator(op), facts);
}

HostTensor random_tensor(const Shape& shape, uint32_t seed, float scale, float shift = 0) {
  std::mt19937 engine(seed);
  HostTensor tensor = zeros(shape);
  for (float& x : tensor.floats)
    x = shift + scale * (static_cast<float>(engine() % 2048) / 1024 - 1);
  return tensor;
}

void expect_near(const HostTensor& got, const HostTensor& wanted, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(to_string(got.shape), to_string(wanted.shape)) << what;
  double most = 1e-6;
  for (const float x : wanted.floats) most = std::max(most, std::abs(double{x}));
  for (size_t i = 0; i < wanted.floats.size(); ++i)
    ASSERT_NEAR(double{got.floats[i]}, double{wanted.floats[i]}, tolerance * most)
        << what << ", element " << i;
}

void add(const HostTensor& from, HostTensor& to) {
  if (to.floats.empty()) to = zeros(from.shape);
  for (size_t i = 0; i < to.floats.size(); ++i) to.floats[i] += from.floats[i];
}

// One share of a node: what it computes of the iterations.
class Shared {
 public:
  Shared(std::shared_ptr<const BoundOperator> op, size_t axis, const IndexSet& set)
      : op_(std::move(op)), iterations_(Box::whole(static_cast<int>(op_->space().axes.size()))) {
    iterations_.axes[axis] = set;
    EXPECT_EQ(check_iterations(op_->space(), iterations_, kRows), "");
  }

  std::vector<HostTensor> forward(const std::vector<HostTensor>& inputs) const {
    OperatorRunner runner(op_, *device_, iterations_, kRows);
    return runner.forward(inputs, moment());
  }
  std::vector<HostTensor> gradients(const std::vector<HostTensor>& inputs,
                                    const std::vector<HostTensor>& upstream) const {
    std::vector<Asked> asked;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (op_->inputs()[i].wants_gradient)
        asked.push_back({static_cast<int>(i), false, zeros(inputs[i].shape)});
    OperatorRunner runner(op_, *device_, iterations_, kRows);
    return runner.gradients(inputs, moment(), upstream, asked);
  }
  Box box(int input) const { return input_box(*op_, input, iterations_, kRows); }

 private:
  static Moment moment() { return {.samples = kRows, .normaliser = kRows}; }

  std::shared_ptr<const BoundOperator> op_;
  Box iterations_;
  std::shared_ptr<runtime::Device> device_ = runtime::make_cpu_device();
};

Shared whole(std::shared_ptr<const BoundOperator> op) {
  return {std::move(op), 0, IndexSet::all()};
}

// Batch normalisation of 7 samples, 5 on one part and 2 on another.
TEST(RewritePieces, BatchNormalizationOverASplitBatchIsThatOfTheWhole) {
  const Shape x_shape{kBatch, 3, 4};
  const Shape c{3};
  const Value activation{c};
  const HostTensor x = random_tensor({kRows, 3, 4}, 1, 2, 30);
  const HostTensor scale = random_tensor(c, 2, 1);
  const HostTensor bias = random_tensor(c, 3, 1);
  const HostTensor mean = random_tensor(c, 4, 1);
  const HostTensor variance = random_tensor(c, 5, 0.4F, 1);
  const HostTensor dy = random_tensor(x.shape, 6, 1);
  const Value parameter{c, Role::kParameter};
  const Value state{c, Role::kState};
  const auto one = whole(node("BatchNormalization", {{x_shape}, parameter, parameter, state, state},
                              {{"training_mode", int64_t{1}}}, 3));
  const std::vector<HostTensor> inputs{x, scale, bias, mean, variance};
  const auto wanted = one.forward(inputs);
  const HostTensor none{DType::kFloat32, c, {}, {}};
  const auto wanted_gradients = one.gradients(inputs, {dy, none, none});

  const Shape totals_shape{2, 3};
  std::vector<Shared> sums;
  std::vector<Shared> squares;
  std::vector<Shared> normal;
  std::vector<HostTensor> xs;
  std::vector<HostTensor> dys;
  for (const IndexSet& set : {IndexSet::of({0, 1, 3, 4, 6}), IndexSet::of({2, 5})}) {
    sums.emplace_back(node("ChannelSum", {{x_shape}}), 0, set);
    squares.emplace_back(node("CenteredSquareSum", {{x_shape}, {totals_shape}}), 0, set);
    normal.emplace_back(
        node("BatchNormalization", {{x_shape}, parameter, parameter, activation, activation}), 0,
        set);
    xs.push_back(cut(x, sums.back().box(0)));
    dys.push_back(cut(dy, sums.back().box(0)));
  }
  const auto statistics =
      whole(node("ChannelStatistics", {{totals_shape}, activation, state, state}, {}, 2));

  HostTensor totals;
  HostTensor square;
  for (size_t part = 0; part < 2; ++part) add(sums[part].forward({xs[part]})[0], totals);
  for (size_t part = 0; part < 2; ++part) add(squares[part].forward({xs[part], totals})[0], square);
  const auto own = statistics.forward({totals, square, mean, variance});
  expect_near(own[0], wanted[1], 1e-5, "mean");
  expect_near(own[1], wanted[2], 1e-5, "variance");

  HostTensor y = zeros(x.shape);
  std::vector<HostTensor> dx(2);
  std::vector<HostTensor> sum_of(4);  // dscale, dB, and of the statistics
  for (size_t part = 0; part < 2; ++part) {
    const std::vector<HostTensor> local{xs[part], scale, bias, own[0], own[1]};
    paste(normal[part].forward(local)[0], normal[part].box(0), y, false);
    const auto gradients = normal[part].gradients(local, {dys[part]});
    add(gradients[0], dx[part]);
    for (size_t i = 0; i < 4; ++i) add(gradients[i + 1], sum_of[i]);
  }
  expect_near(y, wanted[0], 1e-5, "Y");
  const auto back = statistics.gradients({totals, square, mean, variance}, {sum_of[2], sum_of[3]});
  HostTensor of_totals = back[0];
  for (size_t part = 0; part < 2; ++part) {
    const auto gradients = squares[part].gradients({xs[part], totals}, {back[1]});
    add(gradients[0], dx[part]);
    add(gradients[1], of_totals);
  }
  HostTensor gradient = zeros(x.shape);
  for (size_t part = 0; part < 2; ++part) {
    add(sums[part].gradients({xs[part]}, {of_totals})[0], dx[part]);
    paste(dx[part], sums[part].box(0), gradient, false);
  }
  expect_near(gradient, wanted_gradients[0], 1e-5, "dX");
  expect_near(sum_of[0], wanted_gradients[1], 1e-5, "dscale");
  expect_near(sum_of[1], wanted_gradients[2], 1e-5, "dB");
}

HostTensor labels_below(int64_t classes) {
  std::mt19937 engine(9);
  HostTensor labels{DType::kInt64, {kRows}, {}, {}};
  for (int64_t i = 0; i < kRows; ++i)
    labels.integers.push_back(static_cast<int64_t>(engine() % static_cast<uint32_t>(classes)));
  return labels;
}

class SplitCrossEntropy : public testing::TestWithParam<float> {};

// Ten classes on three parts, 4 + 3 + 3, at scores up to 1e4.
TEST_P(SplitCrossEntropy, OverSlicesOfTheClassesIsThatOfTheWhole) {
  constexpr int64_t kClasses = 10;
  const std::vector<int64_t> boundaries{0, 4, 7, 10};
  HostTensor scores = random_tensor({kRows, kClasses}, 8, 3);
  for (float& x : scores.floats) x = x + GetParam();
  const HostTensor labels = labels_below(kClasses);
  const Value label{{kBatch}, Role::kLabel, DType::kInt64};
  const auto one = whole(node("SoftmaxCrossEntropyLoss", {{{kBatch, kClasses}}, label}));
  const auto wanted = one.forward({scores, labels});
  const auto wanted_gradient = one.gradients({scores, labels}, {random_tensor({}, 1, 0, 1)});

  const auto segments =
      node("SegmentLogSumExp", {{{kBatch, kClasses}}}, {{"boundaries", boundaries}}, 2);
  const auto picks = node("PickLabel", {{{kBatch, kClasses}}, label});
  HostTensor maximum = zeros({kRows, 3});
  HostTensor log_sum = zeros({kRows, 3});
  HostTensor picked;
  for (int64_t s = 0; s < 3; ++s) {
    const Shared segment(segments, 1, IndexSet::range(s, s + 1));
    const auto i = static_cast<size_t>(s);
    const Shared pick(picks, 1, IndexSet::range(boundaries[i], boundaries[i + 1]));
    const HostTensor slice = cut(scores, segment.box(0));
    ASSERT_EQ(slice.shape[1], boundaries[i + 1] - boundaries[i]);
    const auto both = segment.forward({slice});
    const Box column{{IndexSet::all(), IndexSet::range(s, s + 1)}};
    paste(both[0], column, maximum, false);
    paste(both[1], column, log_sum, false);
    add(pick.forward({slice, labels})[0], picked);
  }
  const auto loss = whole(node("LogLoss", {{{kBatch, 3}}, {{kBatch, 3}}, {{kBatch}}}));
  expect_near(loss.forward({maximum, log_sum, picked})[0], wanted[0], 1e-6, "loss");

  const auto back = loss.gradients({maximum, log_sum, picked}, {random_tensor({}, 1, 0, 1)});
  HostTensor gradient = zeros(scores.shape);
  for (int64_t s = 0; s < 3; ++s) {
    const Shared segment(segments, 1, IndexSet::range(s, s + 1));
    const auto i = static_cast<size_t>(s);
    const Shared pick(picks, 1, IndexSet::range(boundaries[i], boundaries[i + 1]));
    const HostTensor slice = cut(scores, segment.box(0));
    const Box column{{IndexSet::all(), IndexSet::range(s, s + 1)}};
    const auto soft = segment.gradients({slice}, {cut(back[0], column), cut(back[1], column)});
    paste(soft[0], segment.box(0), gradient, true);
    paste(pick.gradients({slice, labels}, {back[2]})[0], pick.box(0), gradient, true);
  }
  expect_near(gradient, wanted_gradient[0], 1e-5, "dscores");
}

INSTANTIATE_TEST_SUITE_P(Shifts, SplitCrossEntropy, testing::Values(0.0F, 1e4F, -1e4F));

TEST(RewritePieces, ASegmentIsNotDivided) {
  const auto op = node("SegmentLogSumExp", {{{kBatch, 10}}},
                       {{"boundaries", std::vector<int64_t>{0, 4, 10}}}, 2);
  const OperandMap& map = op->space().inputs[0];
  const auto of = [&](int64_t begin, int64_t end) {
    return iterations_of(op->space(), map, {kBatch, 10},
                         {{IndexSet::all(), IndexSet::range(begin, end)}}, kRows);
  };
  ASSERT_TRUE(of(4, 10));
  EXPECT_EQ(to_string(of(4, 10)->axes[1]), "1");
  EXPECT_FALSE(of(3, 10));
}

// Rows are numbered in the whole micro-batch, whichever share of it the call has.
TEST(RewritePieces, AWrongIndexIsNamedByItsPlace) {
  const Value table{{5, 2}, Role::kParameter};
  const Value indices{{kBatch}, Role::kLabel, DType::kInt64};
  const Shared gather(node("Gather", {table, indices}), 0, IndexSet::of({1, 4, 6}));
  const auto error = tests::error_of([&] {
    (void)gather.forward({zeros({5, 2}), {DType::kInt64, {3}, {}, {0, 5, 1}}});
  });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), testing::AllOf(testing::HasSubstr("[4]"), testing::HasSubstr("5")));
}

TEST(RewritePieces, OnlyTheSliceWithTheFirstRowChecksTheIndices) {
  const Value table{{5, 2}, Role::kParameter};
  const Value indices{{kBatch}, Role::kLabel, DType::kInt64};
  const HostTensor wrong{DType::kInt64, {kRows}, {}, {0, 9, 1, 2, 3, 4, 0}};
  const Shared second(node("Gather", {table, indices}), 2, IndexSet::range(2, 5));
  const auto rows = second.forward({random_tensor({3, 2}, 1, 0, 1), wrong})[0].floats;
  EXPECT_EQ(rows, (std::vector<float>{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0}));
}

}  // namespace
}  // namespace kerf::ops
