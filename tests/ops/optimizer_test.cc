// An optimizer does to every element what a few lines of arithmetic say, to the bit, on any number
// of threads; and what PyTorch does, but for rounding.
#include "ops/optimizer.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <sstream>

namespace kerf::ops {
namespace {

struct Step {
  std::vector<float> w, g, v, s;
};

Step draw(size_t count) {
  std::mt19937_64 engine(6);
  std::normal_distribution<float> normal;
  Step step;
  for (std::vector<float>* values : {&step.w, &step.g, &step.v, &step.s}) {
    values->resize(count);
    for (float& value : *values) value = normal(engine);
  }
  for (float& value : step.s) value *= value;
  return step;
}

TensorView view(std::vector<float>& values) {
  return {DType::kFloat32,
          {static_cast<int64_t>(values.size())},
          reinterpret_cast<std::byte*>(values.data())};
}

void update_at(const Optimizer& optimizer, const Pace& pace, float scale, Step& step) {
  const TensorView states[] = {view(step.v), view(step.s)};
  update(optimizer.rule(pace, true), scale, view(step.w), view(step.g),
         {states, static_cast<size_t>(optimizer.states())});
}

const double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

constexpr size_t kCounts[] = {0, 1, 7, 64, 1001, 20011};

// Volatile intermediates, here and below: each product and sum is rounded by itself.
TEST(Optimizer, SgdIsExact) {
  for (const double momentum : {0.0, 0.9})
    for (const double decay : {0.0, 0.03})
      for (const bool nesterov : {false, true}) {
        if (nesterov && momentum == 0) continue;
        const Optimizer optimizer(
            {.momentum = momentum, .nesterov = nesterov, .weight_decay = decay});
        EXPECT_EQ(optimizer.states(), momentum == 0 ? 0 : 1);
        for (const size_t count : kCounts) {
          Step step = draw(count);
          const Step before = step;
          update_at(optimizer, {0.02, 3}, 0.5F, step);
          for (size_t i = 0; i < count; ++i) {
            volatile float own = 0.5F * before.g[i];
            const volatile float decayed = static_cast<float>(decay) * before.w[i];
            own = own + decayed;
            volatile float change = own;
            if (momentum != 0) {
              const volatile float kept = 0.9F * before.v[i];
              const volatile float velocity = kept + own;
              const volatile float ahead = 0.9F * velocity;
              change = nesterov ? own + ahead : static_cast<float>(velocity);
              ASSERT_EQ(step.v[i], velocity);
            }
            const volatile float taken = 0.02F * change;
            ASSERT_EQ(step.w[i], before.w[i] - taken);
            ASSERT_EQ(step.g[i], before.g[i]);
          }
        }
      }
}

TEST(Optimizer, AdagradIsExact) {
  for (const double decay : {0.0, 0.03}) {
    const Optimizer optimizer({.name = "adagrad", .epsilon = 1e-3, .weight_decay = decay});
    EXPECT_EQ(optimizer.states(), 1);
    for (const size_t count : kCounts) {
      Step step = draw(count);
      step.v = step.s;  // a sum of squares is no less than 0
      const Step before = step;
      update_at(optimizer, {0.01, 3}, 0.5F, step);
      for (size_t i = 0; i < count; ++i) {
        volatile float own = 0.5F * before.g[i];
        const volatile float decayed = static_cast<float>(decay) * before.w[i];
        own = own + decayed;
        const volatile float square = own * own;
        const volatile float squares = before.v[i] + square;
        ASSERT_EQ(step.v[i], squares);
        const volatile float root = std::sqrt(static_cast<float>(squares));
        const volatile float below = root + 1e-3F;
        const volatile float above = 0.01F * own;
        const volatile float taken = above / below;
        ASSERT_EQ(step.w[i], before.w[i] - taken) << i;
        ASSERT_EQ(step.g[i], before.g[i]);
      }
    }
  }
}

// From no state, each element goes the learning rate against its gradient's sign, and by a zero
// gradient nowhere.
TEST(Optimizer, FirstAdagradStepIsOfSigns) {
  Step step = draw(100);
  std::fill(step.v.begin(), step.v.end(), 0.0F);
  step.g[3] = 0;
  const Step before = step;
  update_at(Optimizer({.name = "adagrad", .epsilon = 1e-10}), {0.25, 1}, 1, step);
  for (size_t i = 0; i < step.w.size(); ++i) {
    const float sign = i == 3 ? 0.0F : before.g[i] > 0 ? 1.0F : -1.0F;
    EXPECT_NEAR(step.w[i], before.w[i] - 0.25F * sign, 1e-6) << i;
  }
}

TEST(Optimizer, AdamIsExact) {
  for (const std::string name : {"adam", "adamw"}) {
    const Optimizer optimizer({.name = name, .weight_decay = 0.1});
    EXPECT_EQ(optimizer.states(), 2);
    const double first = 1 - 0.9 * 0.9 * 0.9;
    const double second = 1 - 0.999 * 0.999 * 0.999;
    const auto rate = static_cast<float>(0.01 / first);
    const auto root = static_cast<float>(std::sqrt(second));
    for (const size_t count : kCounts) {
      Step step = draw(count);
      const Step before = step;
      update_at(optimizer, {0.01, 3}, 1, step);
      for (size_t i = 0; i < count; ++i) {
        const volatile float decayed = 0.1F * before.w[i];
        const volatile float own = name == "adam" ? before.g[i] + decayed : before.g[i];
        const volatile float kept = 0.9F * before.v[i];
        const volatile float fresh = static_cast<float>(1 - 0.9) * own;
        const volatile float mean = kept + fresh;
        const volatile float kept_square = 0.999F * before.s[i];
        const volatile float part = static_cast<float>(1 - 0.999) * own;
        const volatile float fresh_square = part * own;
        const volatile float square = kept_square + fresh_square;
        ASSERT_EQ(step.v[i], mean);
        ASSERT_EQ(step.s[i], square);
        const volatile float divided = std::sqrt(static_cast<float>(square)) / root;
        const volatile float below = divided + 1e-8F;
        const volatile float above = rate * mean;
        const volatile float taken = above / below;
        const volatile float stays =
            (name == "adamw" ? static_cast<float>(1 - 0.01 * 0.1) : 1) * before.w[i];
        ASSERT_NEAR(step.w[i], stays - taken, 0) << i;
      }
    }
  }
}

TEST(Optimizer, FirstMomentumStepFromZeroIsThePlainOne) {
  Step with = draw(100);
  Step without = with;
  std::fill(with.v.begin(), with.v.end(), 0.0F);
  update_at(Optimizer({.momentum = 0.9}), {0.1, 1}, 1, with);
  update_at(Optimizer({.momentum = 0}), {0.1, 1}, 1, without);
  EXPECT_EQ(with.w, without.w);
}

std::vector<float> floats_of(std::istream& line) {
  std::vector<float> values;
  for (float value; line >> value;) values.push_back(value);
  return values;
}

// torch_optimizer/make_optimizer_cases.py: weights after each step, from the start.
TEST(Optimizer, DoesWhatPyTorchDoes) {
  std::ifstream file(KERF_OPTIMIZER_CASES);
  std::unique_ptr<Optimizer> optimizer;
  Step now;
  std::string name;
  int64_t steps = 0;
  int compared = 0;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string kind;
    line >> kind;
    if (kind == "case") {
      OptimizerOptions o;
      line >> name >> o.name >> o.learning_rate >> o.momentum >> o.nesterov >> o.beta1 >> o.beta2 >>
          o.epsilon >> o.weight_decay >> o.most_norm;
      ASSERT_TRUE(line) << text;
      optimizer = std::make_unique<Optimizer>(o);
      steps = 0;
    } else if (kind == "start") {
      now.w = floats_of(line);
      now.v.assign(now.w.size(), 0);
      now.s.assign(now.w.size(), 0);
    } else if (kind == "step") {
      double rate = 0;
      line >> rate;
      now.g = floats_of(line);
      double squares = 0;
      for (const float each : now.g) squares += double{each} * each;
      update_at(*optimizer, {rate, ++steps}, clip_scale(optimizer->options().most_norm, squares),
                now);
    } else {
      const std::vector<float> expected = floats_of(line);
      ASSERT_EQ(expected.size(), now.w.size());
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(now.w[i], expected[i], 2e-6 * std::max(1.0F, std::abs(expected[i])))
            << name << ", step " << steps;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 55);
}

TEST(Optimizer, ClipsNormsThatAreTooLargeAndNoOthers) {
  EXPECT_EQ(clip_scale(0, 1e30), 1);
  EXPECT_EQ(clip_scale(5, 24), 1);
  EXPECT_EQ(clip_scale(5, 0), 1);
  EXPECT_FLOAT_EQ(clip_scale(5, 10000), 0.05F);
}

TEST(Optimizer, SparesWhatIsNamedFromDecay) {
  const Optimizer optimizer({.weight_decay = 0.1, .no_decay = {"*.bias", "norm*", "a*b*c"}});
  const std::vector<std::pair<std::string, bool>> names = {
      {"fc1.bias", false}, {"fc1.weight", true}, {"norm1.weight", false},
      {"fc.norm", true},   {"a.b.c", false},     {"abc", false},
      {"acb", true},       {"a.b.cd", true},     {"bias", true}};
  for (const auto& [name, decays] : names) EXPECT_EQ(optimizer.decays(name), decays) << name;
  EXPECT_EQ(optimizer.rule({0.1, 1}, true).decay, 0.1F);
  EXPECT_EQ(optimizer.rule({0.1, 1}, false).decay, 0);
}

// GCC's OpenMP runtime is not built for it: every barrier would be reported as a race.
#ifdef __SANITIZE_THREAD__
constexpr bool kUnderThreadSanitizer = true;
#else
constexpr bool kUnderThreadSanitizer = false;
#endif

TEST(Optimizer, IsTheSameOnAnyNumberOfThreadsAndInAnyShares) {
  if (kUnderThreadSanitizer) GTEST_SKIP() << "OpenMP's barriers are unknown to ThreadSanitizer";
  const int before = omp_get_max_threads();
  for (const std::string name : {"sgd", "adagrad", "adam"}) {
    const Optimizer optimizer({.name = name, .momentum = name == "sgd" ? 0.9 : 0});
    const Pace pace{0.02, 7};
    omp_set_num_threads(1);
    Step drawn = draw(200001);
    if (name == "adagrad") drawn.v = drawn.s;
    Step whole = drawn;
    update_at(optimizer, pace, 1, whole);
    omp_set_num_threads(3);
    Step threads = drawn;
    update_at(optimizer, pace, 1, threads);
    omp_set_num_threads(before);
    EXPECT_EQ(threads.w, whole.w);
    EXPECT_EQ(threads.v, whole.v);
    EXPECT_EQ(threads.s, whole.s);

    std::vector<float> joined;
    for (size_t begin = 0; begin < drawn.w.size(); begin += 66667) {
      const auto cut = [&](const std::vector<float>& values) {
        return std::vector<float>(values.begin() + static_cast<ptrdiff_t>(begin),
                                  values.begin() + static_cast<ptrdiff_t>(begin + 66667));
      };
      Step share{cut(drawn.w), cut(drawn.g), cut(drawn.v), cut(drawn.s)};
      update_at(optimizer, pace, 1, share);
      joined.insert(joined.end(), share.w.begin(), share.w.end());
    }
    EXPECT_EQ(joined, whole.w);
  }
}

bool refused(const OptimizerOptions& options) {
  try {
    const Optimizer optimizer(options);
  } catch (const Error& error) {
    return error.code() == ErrorCode::kUsage;
  }
  return false;
}

TEST(Optimizer, RefusesOptionsThatMakeNoSense) {
  for (const double rate : {0.0, -0.1, kInfinity, -kInfinity, kNan, 1e-60, 1e60})
    EXPECT_TRUE(refused({.learning_rate = rate})) << rate;
  for (const double share : {-0.1, 1.0, 1.5, kInfinity, kNan, 1 - 1e-12}) {
    EXPECT_TRUE(refused({.momentum = share})) << share;
    EXPECT_TRUE(refused({.name = "adam", .beta1 = share})) << share;
    EXPECT_TRUE(refused({.name = "adam", .beta2 = share})) << share;
  }
  for (const double size : {-0.1, kInfinity, kNan}) {
    EXPECT_TRUE(refused({.weight_decay = size})) << size;
    EXPECT_TRUE(refused({.most_norm = size})) << size;
    for (const std::string name : {"adagrad", "adam"})
      EXPECT_TRUE(refused({.name = name, .epsilon = size})) << name << size;
  }
  EXPECT_TRUE(refused({.name = "adamant"}));
  EXPECT_TRUE(refused({.nesterov = true}));
  for (const std::string name : {"adagrad", "adam"}) {
    EXPECT_TRUE(refused({.name = name, .momentum = 0.5}));
    EXPECT_TRUE(refused({.name = name, .nesterov = true}));
    EXPECT_TRUE(refused({.name = name, .epsilon = 0}));
    EXPECT_TRUE(refused({.name = name, .epsilon = 1e-60}));  // as a float, 0
  }
  for (const std::string name : {"adagrad", "adamw"}) EXPECT_FALSE(refused({.name = name}));
}

TEST(Optimizer, RefusesTensorsThatDoNotMatch) {
  const UpdateRule rule = Optimizer({.momentum = 0.9}).rule({0.1, 1}, true);
  Step step = draw(10);
  std::vector<float> shorter(9);
  const TensorView state = view(step.v);
  const TensorView wrong = view(shorter);
  EXPECT_THROW(update(rule, 1, view(step.w), wrong, std::span(&state, 1)), Error);
  EXPECT_THROW(update(rule, 1, view(step.w), view(step.g), std::span(&wrong, 1)), Error);
  EXPECT_THROW(update(rule, 1, view(step.w), view(step.g), {}), Error);
}

}  // namespace
}  // namespace kerf::ops
