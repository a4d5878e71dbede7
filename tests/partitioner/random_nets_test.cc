// Random models of all operators, divided and bound at random, compute what one worker computes:
// bit for bit where numbers are exact and where no operator is divided, else with an error, against
// float64, of the same order as the undivided model's. And what travels is what was predicted.
//
// KERF_SEEDS=FIRST-LAST in the environment chooses other seeds: the long sweep does.
#include <gmock/gmock.h>

#include "partitioner/channels_last.h"
#include "tests/partitioner/random_models.h"
#include "tests/partitioner/reference_step.h"
#include "tests/partitioner/step_checks.h"
#include "tests/support/seeds.h"

namespace kerf::partitioner {
namespace {

using ::testing::IsEmpty;

class RandomNets : public ::testing::TestWithParam<int> {
 protected:
  Random random_{static_cast<Random::result_type>(GetParam())};

  // Every other seed says the rows of each micro-batch.
  Placing any_sizes(Placing placing) {
    if (GetParam() % 2 == 1) placing.give_sizes(random_);
    return placing;
  }

  Plan sound_plan(const Model& model, const Placing& placing) {
    Plan plan = random_plan(model, placing, random_);
    EXPECT_THAT(validate(model, plan), IsEmpty());
    return plan;
  }
};

Plan undivided(const Model& model, const Placing& like) {
  Random any;
  return random_plan(model,
                     {.workers = 1,
                      .stages = 1,
                      .divides = false,
                      .batch = like.batch,
                      .micro_batches = like.micro_batches,
                      .given_sizes = like.given_sizes},
                     any);
}

// Runs a full step, and one of so few rows that some micro-batches are empty.
std::vector<StepResult> run_steps(const Model& model, const Plan& plan, Numbers numbers) {
  std::vector<StepResult> results;
  for (const int64_t batch : {plan.batch, int64_t{2}}) {
    results.push_back(run(model, plan, plan.sizes().of(batch), numbers));
    EXPECT_EQ(results.back().traffic, predict_traffic(model, plan, batch));
  }
  return results;
}

void expect_same_bits(const Model& model, const Plan& plan, const Plan& one, Numbers numbers) {
  const auto got = run_steps(model, plan, numbers);
  const auto expected = run_steps(model, one, numbers);
  for (size_t i = 0; i < got.size(); ++i) expect_same_bits(got[i], expected[i]);
}

TEST_P(RandomNets, AreExactUnderAnyDivisionWhereNumbersAre) {
  const Model model = random_net(Family::kExact, random_);
  const Placing placing = any_sizes({.workers = 1 + draw(random_, 4)});
  expect_same_bits(model, sound_plan(model, placing), undivided(model, placing), Numbers::kWhole);
}

TEST_P(RandomNets, AreTheSameBitForBitUnderLayerCuts) {
  const Model model = random_net(Family::kScaled, random_);
  const Placing placing =
      any_sizes({.workers = 1 + draw(random_, 3), .stages = 5, .divides = false});
  expect_same_bits(model, sound_plan(model, placing), undivided(model, placing), Numbers::kNormal);
}

// The root of the mean of squares of what is wrong, each tensor in units of its own size.
class Errors {
 public:
  void add(const std::vector<float>& got, const std::vector<double>& exact, double least) {
    ASSERT_EQ(got.size(), exact.size());
    double size = least;
    for (const double each : exact) size = std::max(size, std::abs(each));
    for (size_t i = 0; i < got.size(); ++i) {
      const double error = (double{got[i]} - exact[i]) / (size > 0 ? size : 1);
      squares_ += error * error;
    }
    count_ += static_cast<double>(got.size());
  }
  double mean() const { return std::sqrt(squares_ / std::max(count_, 1.0)); }

 private:
  double squares_ = 0;
  double count_ = 0;
};

double largest(const ReferenceResult::Tensors& tensors) {
  double most = 0;
  for (const auto& [name, tensor] : tensors)
    for (const double each : tensor) most = std::max(most, std::abs(each));
  return most;
}

// Of forward values, and of gradients and states.
std::pair<double, double> errors_of(const StepResult& result, const ReferenceResult& exact) {
  Errors forward, backward;
  for (size_t m = 0; m < exact.losses.size(); ++m)
    forward.add({result.losses[m]}, {exact.losses[m]}, 1e-3);
  // What is nothing but rounding (a bias before a normalisation: its gradient is 0) weighs nothing.
  const double most = largest(exact.gradients);
  // Those of reshaping, which computes nothing, are not recorded.
  for (const auto& [name, tensor] : result.values) {
    SCOPED_TRACE(name);
    forward.add(tensor, exact.values.at(name), 1e-3);
  }
  for (const auto& [name, tensor] : exact.gradients) {
    SCOPED_TRACE(name);
    const bool is_rounding = largest({{name, tensor}}) < 1e-12 * most;
    backward.add(result.gradients.at(name), tensor, is_rounding ? most : 1e-3 * most);
  }
  for (const auto& [name, tensor] : exact.states) {
    SCOPED_TRACE(name);
    backward.add(result.parameters.at(name), tensor, 1e-3);
  }
  return {forward.mean(), backward.mean()};
}

TEST_P(RandomNets, ErrAtMostFourTimesAsMuchWhenDivided) {
  const Model model = random_net(Family::kScaled, random_);
  const Placing placing = any_sizes({.workers = 2 + draw(random_, 3)});
  const Plan plan = sound_plan(model, placing);
  const auto sizes = plan.sizes().of(plan.batch);
  const ReferenceResult exact = reference_step(model, sizes, Numbers::kNormal);
  const StepResult divided = run(model, plan, sizes);
  EXPECT_EQ(divided.traffic, predict_traffic(model, plan, placing.batch));
  const auto got = errors_of(divided, exact);
  const auto whole = errors_of(run(model, undivided(model, placing), sizes), exact);
  // A unit in the last place of everything is no error to speak of.
  constexpr double kUnit = 0x1p-24;
  EXPECT_LE(got.first, 4 * std::max(whole.first, kUnit));
  EXPECT_LE(got.second, 4 * std::max(whole.second, kUnit));
  EXPECT_LE(whole.first, 1e-4) << "and the undivided model errs little";
  EXPECT_LE(whole.second, 1e-4);
}

// The exact family is exact indeed: the undivided step is what float64 makes of it.
TEST_P(RandomNets, OfWholeNumbersRoundNothing) {
  const Model model = random_net(Family::kExact, random_);
  const Plan one = undivided(model, {});
  const auto sizes = one.sizes().of(one.batch);
  const auto errors = errors_of(run(model, one, sizes, Numbers::kWhole),
                                reference_step(model, sizes, Numbers::kWhole));
  EXPECT_EQ(errors.first, 0);
  EXPECT_EQ(errors.second, 0);
}

// What comes of images, which lie in another order themselves.
StepResult run_to_the_end(const Model& model, const Plan& plan, const std::vector<int64_t>& sizes,
                          Numbers numbers) {
  StepResult result = run(model, plan, sizes, numbers);
  result.values.clear();
  return result;
}

// In either order of images: exactly where numbers are, and as little wrong as in ONNX's elsewhere.
TEST_P(RandomNets, AreTheSameWithTheirChannelsLast) {
  const Model exact = random_net_of_onnx(Family::kExact, random_);
  const Model turned = channels_last(exact);
  const Plan plan = undivided(turned, {});
  const auto sizes = plan.sizes().of(plan.batch);
  expect_same_bits(run_to_the_end(turned, plan, sizes, Numbers::kWhole),
                   run_to_the_end(exact, undivided(exact, {}), sizes, Numbers::kWhole));
  const Model any = random_net_of_onnx(Family::kScaled, random_);
  const Model also = channels_last(any);
  const auto errors = errors_of(run_to_the_end(also, undivided(also, {}), sizes, Numbers::kNormal),
                                reference_step(any, sizes, Numbers::kNormal));
  EXPECT_LE(errors.first, 1e-4);
  EXPECT_LE(errors.second, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomNets, tests::seeds(1, 12));

}  // namespace
}  // namespace kerf::partitioner
