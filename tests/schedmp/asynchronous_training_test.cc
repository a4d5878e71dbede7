// Schedules that update weights within the step: every plan of them has the bits of one worker that
// runs the same text, and what that text says is computed once more by a plain loop.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "runtime/error.h"
#include "schedmp/interpreter.h"
#include "schedmp/schedules.h"
#include "schedmp/training/row_order.h"
#include "schedmp/unfold.h"
#include "schedmp/versions.h"
#include "tests/schedmp/trained.h"
#include "tests/support/random_dataset.h"

namespace kerf::schedmp {
namespace {

using partitioner::Cut;
using partitioner::Model;
using partitioner::Plan;
using tests::Answer;
using tests::Case;
using tests::train;

// All rows in one, in the order in which their actions begin; each worker has one stage, and of a
// group the first speaks.
Schedule on_one_worker(const Schedule& schedule) {
  const Unfolded unfolded = unfold(schedule, partitioner::chain_of_stages(schedule.stages()));
  std::vector<std::tuple<double, size_t, size_t>> order;
  for (const std::vector<int>& group : schedule.groups) {
    const auto worker = static_cast<size_t>(group.front());
    for (size_t i = 0; i < schedule.rows[worker].size(); ++i)
      order.emplace_back(unfolded.rows[worker][i].begin, worker, i);
  }
  std::sort(order.begin(), order.end());
  Schedule alone = schedule;
  alone.groups.assign(schedule.groups.size(), {0});
  alone.rows.assign(1, {});
  for (const auto& [begin, worker, i] : order) alone.rows[0].push_back(schedule.rows[worker][i]);
  return alone;
}

// So deep that each of three stages has weights.
constexpr const char* kDeep = "12-64-64-64-64-64-5";

Schedule step(const std::string& name, int workers, int micro_batches) {
  return make_step(name, chain_of_shape(name, workers), micro_batches);
}

void expect_bits_of_one_worker(Case c, const Schedule& schedule) {
  c.text = write_schedule(on_one_worker(schedule));
  const Answer alone = train(c);
  c.text = write_schedule(schedule);
  c.workers = schedule.workers();
  const Answer together = train(c);
  tests::expect_same_bits(alone, together);
  EXPECT_EQ(alone.gradient_norms, together.gradient_norms);
  tests::expect_counted_as_predicted(together);
  tests::expect_memory_as_predicted(together);
  tests::expect_same_when_late(c, together);
}

class Asynchronous : public testing::TestWithParam<std::tuple<std::string, std::string, int>> {};

TEST_P(Asynchronous, HasTheBitsOfOneWorkerOfTheSameText) {
  const auto& [source, name, workers] = GetParam();
  const Schedule schedule = step(name, workers, 6);
  ASSERT_TRUE(schedule.updates_within());
  expect_bits_of_one_worker({.source = source, .micro_batches = 6, .steps = 5, .slots = 3},
                            schedule);
}

INSTANTIATE_TEST_SUITE_P(Schedules, Asynchronous,
                         testing::Combine(testing::Values(kDeep, "braided", "filtering",
                                                          "dropping"),
                                          testing::Values("pipedream", "pipedream-2bw", "ampnet"),
                                          testing::Values(2, 3)));
INSTANTIATE_TEST_SUITE_P(Deep, Asynchronous,
                         testing::Combine(testing::Values(kDeep),
                                          testing::Values("pipedream", "ampnet"),
                                          testing::Values(6)));

// On one worker, where nothing is late, updates within a step are those of as many small steps:
// the optimizer's count, statistics, norms and the rows that a gradient is the mean over. An epoch
// of 70 rows ends with a step of one, whose other updates are none.
class SmallSteps : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(SmallSteps, AreUpdatesWithinAStep) {
  const auto& [source, optimizer] = GetParam();
  Case c{.source = source, .schedule = "pipedream", .batch = 23, .micro_batches = 23, .steps = 4};
  if (optimizer == "adam") c.optimizer = {.name = "adam", .learning_rate = 0.003};
  const Answer within = train(c);
  c.schedule = "1f1b";
  c.batch = c.micro_batches = 1;
  c.steps = 70;
  const Answer steps = train(c);
  ASSERT_EQ(within.weights.size(), steps.weights.size());
  for (size_t i = 0; i < steps.weights.size(); ++i)
    EXPECT_TRUE(within.weights[i].bytes == steps.weights[i].bytes) << steps.weights[i].name;
  ASSERT_EQ(within.losses.size(), 4U);
  for (size_t step = 0; step < 4; ++step) {
    double loss = 0, squares = 0;
    const size_t rows = step < 3 ? 23 : 1;
    for (size_t i = 23 * step; i < 23 * step + rows; ++i) {
      loss += steps.losses[i] / static_cast<double>(rows);
      squares += steps.gradient_norms[i] * steps.gradient_norms[i];
    }
    EXPECT_NEAR(within.losses[step], loss, 1e-6 * loss) << step;
    EXPECT_NEAR(within.gradient_norms[step], std::sqrt(squares), 1e-9 * std::sqrt(squares)) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SmallSteps,
                         testing::Combine(testing::Values("12-24-18-10-5", "braided", "filtering"),
                                          testing::Values("momentum", "adam")));

TEST(AsynchronousRecomputation, ReadsTheWeightsOfItsForward) {
  Case c{.source = "braided", .micro_batches = 6, .steps = 4, .slots = 3};
  const Schedule kept = step("pipedream", 3, 6);
  expect_bits_of_one_worker(c, recomputed(kept));
  c.workers = 3;
  c.text = write_schedule(kept);
  const Answer as_kept = train(c);
  c.text = write_schedule(recomputed(kept));
  tests::expect_same_bits(train(c), as_kept);
}

// I, W and U of a micro-batch in turns of their own, an update for two micro-batches on one stage
// and for one on the other, and gradients of weights that their forward did not read.
constexpr const char* kMixed =
    "kerf-schedule 1\nname mixed\nworkers 2\nmicro-batches 4\nstage 0 on 0\nstage 1 on 1\n"
    "row 0: 0F0 0F1 0I0@0 0W0 0U0 0F2@-1 0I1 0F3 0I2@-1 0W1 0U1 0W2 0U2 0I3 0W3 0U3\n"
    "row 1: 1F0 1B0 1F1 1I1 1W1 1U1 1F2@-1 1B2@0 1F3 1B3 1U3\n";

TEST(AsynchronousText, MayMixWhatItLikes) {
  const Schedule mixed = parse_schedule(kMixed, "mixed");
  expect_bits_of_one_worker({.source = kDeep, .micro_batches = 4, .steps = 4, .slots = 4}, mixed);
}

// A perceptron in plain loops, that runs the actions of one row.
class Perceptron {
 public:
  struct Layer {
    int stage = 0;
    size_t inputs = 0, outputs = 0;
    std::vector<double> weight, bias;  // outputs x inputs
  };

  Perceptron(const Model& model, const Plan& plan, const std::vector<NamedTensor>& weights,
             double rate)
      : rate_(rate), stage_of_loss_(plan.stage_of(model.loss())) {
    std::map<std::string, const NamedTensor*> by_name;
    for (const NamedTensor& each : weights) by_name[each.name] = &each;
    const auto numbers = [&](partitioner::ValueId value) {
      const NamedTensor& tensor = *by_name.at(model.value(value).name);
      const auto* data = reinterpret_cast<const float*>(tensor.bytes.data());
      return std::vector<double>(data, data + tensor.shape.elements());
    };
    for (partitioner::NodeId node = 0; node < model.nodes(); ++node) {
      const partitioner::Node& each = model.node(node);
      if (each.inputs.size() < 3) continue;
      const ops::Shape& shape = model.value(each.inputs[1]).spec.shape;
      layers_.push_back({plan.stage_of(node), static_cast<size_t>(shape[1]),
                         static_cast<size_t>(shape[0]), numbers(each.inputs[1]),
                         numbers(each.inputs[2])});
    }
  }

  const std::vector<Layer>& layers() const { return layers_; }

  // One step. `rows`: of each micro-batch.
  void run(const std::vector<Action>& row, const std::vector<std::vector<int64_t>>& rows) {
    rows_ = rows;
    versions_.assign(1, layers_);
    updates_.clear();
    forward_.clear();
    inputs_.assign(rows.size(), std::vector<Matrix>(layers_.size() + 1));
    gradients_.assign(rows.size(), {});
    find_takers(row);
    clear_sums();
    for (const Action& action : row) act(action);
  }

 private:
  using Matrix = std::vector<std::vector<double>>;  // row by row

  // By micro-batch: how many rows the update has that takes it, where the loss is.
  void find_takers(const std::vector<Action>& row) {
    taken_.clear();
    for (const Action& action : row) {
      if (action.kind != ActionKind::kUpdate || action.stage != stage_of_loss_) continue;
      size_t all = 0;
      const size_t first = taken_.size(), end = static_cast<size_t>(action.micro_batch) + 1;
      for (size_t mb = first; mb < end; ++mb) all += rows_[mb].size();
      taken_.resize(end, static_cast<double>(all));
    }
  }

  void clear_sums() {
    sums_ = layers_;
    for (Layer& each : sums_) {
      std::fill(each.weight.begin(), each.weight.end(), 0.0);
      std::fill(each.bias.begin(), each.bias.end(), 0.0);
    }
  }

  // Of the stage's versions the one that an action reads.
  int version_of(const Action& action) {
    const int newest = updates_[action.stage];
    if (action.version != Action::kUnsaid) return std::max(0, newest + action.version);
    return action.kind == ActionKind::kForward ? newest
                                               : forward_.at({action.stage, action.micro_batch});
  }

  void act(const Action& action) {
    const auto mb = static_cast<size_t>(std::max(action.micro_batch, 0));
    if (action.kind == ActionKind::kForward) {
      const int version = forward_[{action.stage, action.micro_batch}] = version_of(action);
      for (size_t l = 0; l < layers_.size(); ++l)
        if (layers_[l].stage == action.stage) forward(l, mb, at(version, l));
    }
    if (action.kind == ActionKind::kInputGradient || action.kind == ActionKind::kBackward)
      for (size_t l = layers_.size(); l-- > 0;)
        if (layers_[l].stage == action.stage) back(l, mb, at(version_of(action), l));
    if (action.kind == ActionKind::kWeightGradient || action.kind == ActionKind::kBackward)
      for (size_t l = 0; l < layers_.size(); ++l)
        if (layers_[l].stage == action.stage) add(l, mb);
    if (action.kind == ActionKind::kUpdate) update(action.stage);
  }

  const Layer& at(int version, size_t layer) {
    return versions_[static_cast<size_t>(version)][layer];
  }

  void forward(size_t l, size_t mb, const Layer& layer) {
    if (l == 0) inputs_[mb][0] = features(rows_[mb]);
    Matrix& to = inputs_[mb][l + 1];
    to.assign(rows_[mb].size(), std::vector<double>(layer.outputs));
    for (size_t r = 0; r < to.size(); ++r)
      for (size_t o = 0; o < layer.outputs; ++o) {
        double sum = layer.bias[o];
        for (size_t i = 0; i < layer.inputs; ++i)
          sum += layer.weight[o * layer.inputs + i] * inputs_[mb][l][r][i];
        to[r][o] = l + 1 < layers_.size() ? std::max(sum, 0.0) : sum;
      }
  }

  // The gradient of the outputs before their ReLU is kept for W; that of the inputs goes on.
  void back(size_t l, size_t mb, const Layer& layer) {
    if (l + 1 == layers_.size()) gradients_[mb][l] = of_loss(mb);
    const Matrix& given = gradients_[mb][l];
    if (l == 0) return;
    Matrix& to = gradients_[mb][l - 1];
    to.assign(given.size(), std::vector<double>(layer.inputs));
    for (size_t r = 0; r < given.size(); ++r)
      for (size_t i = 0; i < layer.inputs; ++i) {
        if (inputs_[mb][l][r][i] <= 0) continue;
        for (size_t o = 0; o < layer.outputs; ++o)
          to[r][i] += given[r][o] * layer.weight[o * layer.inputs + i];
      }
  }

  Matrix of_loss(size_t mb) {
    Matrix gradient = inputs_[mb].back();
    for (size_t r = 0; r < gradient.size(); ++r) {
      double sum = 0;
      for (const double score : gradient[r]) sum += std::exp(score);
      for (double& each : gradient[r]) each = std::exp(each) / sum;
      gradient[r][label(rows_[mb][r])] -= 1;
      for (double& each : gradient[r]) each /= taken_[mb];
    }
    return gradient;
  }

  void add(size_t l, size_t mb) {
    Layer& sum = sums_[l];
    for (size_t r = 0; r < gradients_[mb][l].size(); ++r)
      for (size_t o = 0; o < sum.outputs; ++o) {
        sum.bias[o] += gradients_[mb][l][r][o];
        for (size_t i = 0; i < sum.inputs; ++i)
          sum.weight[o * sum.inputs + i] += gradients_[mb][l][r][o] * inputs_[mb][l][r][i];
      }
  }

  void update(int stage) {
    const auto number = static_cast<size_t>(++updates_[stage]);
    if (versions_.size() <= number) versions_.push_back(layers_);
    for (size_t l = 0; l < layers_.size(); ++l) {
      if (layers_[l].stage != stage) continue;
      const auto apply = [&](std::vector<double>& weights, std::vector<double>& sum) {
        for (size_t i = 0; i < weights.size(); ++i) weights[i] -= rate_ * std::exchange(sum[i], 0);
      };
      apply(layers_[l].weight, sums_[l].weight);
      apply(layers_[l].bias, sums_[l].bias);
      versions_[number][l] = layers_[l];
    }
  }

  static Matrix features(const std::vector<int64_t>& rows) {
    Matrix all;
    for (const int64_t row : rows) {
      std::vector<float> one(12);
      const int64_t number[] = {row};
      kerf::tests::RandomDataset(70, 12, 5).read_features(
          number, {ops::DType::kFloat32, {1, 12}, reinterpret_cast<std::byte*>(one.data())});
      all.emplace_back(one.begin(), one.end());
    }
    return all;
  }
  static size_t label(int64_t row) {
    int64_t label = 0;
    const int64_t number[] = {row};
    kerf::tests::RandomDataset(70, 12, 5).read_labels(
        number, {ops::DType::kInt64, {1}, reinterpret_cast<std::byte*>(&label)});
    return static_cast<size_t>(label);
  }

  const double rate_;
  const int stage_of_loss_;
  std::vector<Layer> layers_, sums_;            // the newest; gradients since the last update
  std::vector<std::vector<Layer>> versions_;    // of this step, by number
  std::map<int, int> updates_;                  // by stage, in this step
  std::map<std::pair<int, int>, int> forward_;  // stage, micro-batch -> version
  std::vector<std::vector<int64_t>> rows_;
  std::vector<double> taken_;
  std::vector<std::vector<Matrix>> inputs_;          // by micro-batch, by layer
  std::vector<std::map<size_t, Matrix>> gradients_;  // likewise
};

std::vector<std::vector<int64_t>> micro_batches_of(int64_t first, int64_t rows, int micro_batches) {
  const RowOrder order(70, 1, 0);
  std::vector<std::vector<int64_t>> all(static_cast<size_t>(micro_batches));
  int64_t next = first;
  for (int64_t mb = 0; mb < micro_batches; ++mb)
    for (int64_t i = 0; i < rows / micro_batches + (mb < rows % micro_batches ? 1 : 0); ++i)
      all[static_cast<size_t>(mb)].push_back(order[next++]);
  return all;
}

double distance(const std::vector<double>& a, const NamedTensor& b) {
  const auto* data = reinterpret_cast<const float*>(b.bytes.data());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(a[i] - static_cast<double>(data[i])));
  return most;
}

// Three steps of the case, and of a loop that knows no plan but for which layer is in which stage.
void expect_weights_of_a_plain_loop(Case c) {
  c.source = kDeep;
  c.steps = 3;
  c.slots = 4;
  c.optimizer = {.learning_rate = 0.3};
  const Answer trained = train(c);
  Case none = c;
  none.steps = 0;
  const Model model = tests::make_model(c.source);
  const Schedule schedule = c.text.empty() ? make_schedule(c.schedule, model, trained.plan)
                                           : parse_schedule(c.text, "test");
  Perceptron plain(model, trained.plan, train(none).weights, 0.3);
  for (int stage = 0; stage < schedule.stages(); ++stage)
    ASSERT_TRUE(std::ranges::any_of(plain.layers(),
                                    [&](const auto& layer) { return layer.stage == stage; }));
  Perceptron synchronous = plain;
  const Schedule alone = on_one_worker(schedule);
  std::vector<Action> at_the_end = alone.rows[0];
  std::erase_if(at_the_end, [&](const Action& action) {
    return action.kind == ActionKind::kUpdate && action.micro_batch + 1 < schedule.micro_batches;
  });
  for (int64_t first = 0; first < 66; first += 22) {
    const auto rows = micro_batches_of(first, 22, schedule.micro_batches);
    plain.run(alone.rows[0], rows);
    synchronous.run(at_the_end, rows);
  }
  double most = 0, apart = 0;
  std::map<std::string, const NamedTensor*> by_name;
  for (const NamedTensor& each : trained.weights) by_name[each.name] = &each;
  for (size_t l = 0; l < plain.layers().size(); ++l) {
    const std::string name = kerf::format("fc{}", l + 1);
    const NamedTensor& weight = *by_name.at(name + ".weight");
    const NamedTensor& bias = *by_name.at(name + ".bias");
    most = std::max(
        {most, distance(plain.layers()[l].weight, weight), distance(plain.layers()[l].bias, bias)});
    apart = std::max(apart, distance(synchronous.layers()[l].weight, weight));
  }
  EXPECT_LT(most, 2e-6);
  EXPECT_GT(apart, 1e-3);
}

class PlainLoop : public testing::TestWithParam<std::string> {};

TEST_P(PlainLoop, HasTheSameWeights) {
  Case c{.workers = 3, .schedule = GetParam(), .batch = 22, .micro_batches = 6};
  expect_weights_of_a_plain_loop(c);
}

INSTANTIATE_TEST_SUITE_P(Schedules, PlainLoop,
                         testing::Values("pipedream", "pipedream-2bw", "ampnet"));

TEST(PlainLoops, HasTheWeightsOfAnyText) {
  expect_weights_of_a_plain_loop({.batch = 22, .micro_batches = 4, .text = kMixed});
}

// Stages of two workers each, which divide their operators by feature: nobody shares a weight.
TEST(PlainLoops, HasTheWeightsOfGroups) {
  expect_weights_of_a_plain_loop({.cut = Cut::kHybrid,
                                  .workers = 4,
                                  .schedule = "pipedream",
                                  .batch = 22,
                                  .micro_batches = 6});
}

// Stage s of p keeps p - s versions; two are enough for 2BW, and AMPNet has one.
TEST(AsynchronousMemory, IsOfAsManyVersionsAsAreRead) {
  const auto persistent = [](const std::string& name) {
    Case c{.source = kDeep, .micro_batches = 6, .steps = 1, .slots = 3};
    c.workers = 3;
    c.text = write_schedule(step(name, 3, 6));
    const Model model = tests::make_model(c.source);
    const Plan plan = tests::plan_of(model, c);
    const Schedule schedule = parse_schedule(c.text, "test");
    return verify(model, plan, partitioner::lower(model, plan, lowering_for(schedule)), schedule,
                  {})
        .persistent_bytes;
  };
  const auto one = persistent("ampnet");
  const auto two = persistent("pipedream-2bw");
  const auto many = persistent("pipedream");
  EXPECT_EQ(many[2], one[2]);
  for (size_t worker = 0; worker < 3; ++worker) {
    const int64_t weights = two[worker] - one[worker];
    EXPECT_GT(weights, 0) << worker;
    EXPECT_EQ(many[worker] - one[worker], (2 - static_cast<int64_t>(worker)) * weights) << worker;
  }
}

void expect_refused(const Case& c, const std::string& what) {
  try {
    train(c);
    ADD_FAILURE() << "was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.message(), testing::HasSubstr(what));
  }
}

TEST(AsynchronousRefusals, NameWhatWouldWaitForAnother) {
  expect_refused({.cut = Cut::kBatch, .workers = 2, .schedule = "pipedream"}, "is shared by parts");
  Case clipped{.workers = 2, .schedule = "pipedream"};
  clipped.optimizer.most_norm = 1;
  expect_refused(clipped, "--clip-norm");
}

// A rate that explodes in the second step: its first update is made, and none of what comes of it.
TEST(AsynchronousNumbers, ThatAreNotFiniteChangeNothing) {
  Case c{.source = kDeep, .schedule = "pipedream", .micro_batches = 6, .steps = 2};
  c.optimizer = {.learning_rate = 0.01};
  c.rates = {.kind = RateSchedule::Kind::kStep, .every = 1, .factor = 1e25};
  const Answer answer = train(c);
  EXPECT_FALSE(std::isfinite(answer.losses[1]));
  float most = 0;
  for (const NamedTensor& each : answer.weights) {
    const auto* data = reinterpret_cast<const float*>(each.bytes.data());
    for (int64_t i = 0; i < each.shape.elements(); ++i) {
      ASSERT_TRUE(std::isfinite(data[i])) << each.name;
      most = std::max(most, std::abs(data[i]));
    }
  }
  EXPECT_GT(most, 1e15F);
}

TEST(AsynchronousNumbers, ThatAreNotFiniteEndTheRun) {
  Case c{.source = kDeep, .workers = 3, .schedule = "pipedream", .micro_batches = 4, .steps = 20};
  c.optimizer.learning_rate = 1e20;
  expect_refused(c, "updates behind it were left out");
}

}  // namespace
}  // namespace kerf::schedmp
