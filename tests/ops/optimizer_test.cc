// SGD does to every element what one line of arithmetic says, to the bit, on any number of threads.
#include "ops/optimizer.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>
#include <random>

namespace kerf::ops {
namespace {

struct Step {
  std::vector<float> w, g, v;
};

Step draw(size_t count) {
  std::mt19937_64 engine(6);
  std::normal_distribution<float> normal;
  Step step;
  for (std::vector<float>* values : {&step.w, &step.g, &step.v}) {
    values->resize(count);
    for (float& value : *values) value = normal(engine);
  }
  return step;
}

TensorView view(std::vector<float>& values) {
  return {DType::kFloat32,
          {static_cast<int64_t>(values.size())},
          reinterpret_cast<std::byte*>(values.data())};
}

class OptimizerTest : public testing::Test {
 protected:
  std::unique_ptr<Optimizer> make(double rate, double momentum, const std::string& name = "sgd") {
    return make_optimizer({name, rate, momentum}, *device_);
  }
  void update(const Optimizer& optimizer, Step& step) {
    const TensorView state = view(step.v);
    optimizer.update(view(step.w), view(step.g),
                     std::span(&state, static_cast<size_t>(optimizer.states())));
  }
  ErrorCode refusal(double rate, double momentum, const std::string& name = "sgd") {
    try {
      make(rate, momentum, name);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  }

  std::unique_ptr<runtime::Device> device_ = runtime::make_cpu_device();
};

// Volatile intermediates: each product and sum is rounded by itself.
TEST_F(OptimizerTest, MomentumIsExact) {
  const auto optimizer = make(0.02, 0.9);
  EXPECT_EQ(optimizer->states(), 1);
  for (const size_t count : {0U, 1U, 7U, 64U, 1001U, 20011U}) {
    Step step = draw(count);
    const Step before = step;
    update(*optimizer, step);
    for (size_t i = 0; i < count; ++i) {
      const volatile float kept = 0.9F * before.v[i];
      const volatile float velocity = kept + before.g[i];
      const volatile float change = 0.02F * velocity;
      ASSERT_EQ(step.v[i], velocity);
      ASSERT_EQ(step.w[i], before.w[i] - change);
      ASSERT_EQ(step.g[i], before.g[i]);
    }
  }
}

TEST_F(OptimizerTest, PlainStepIsExactAndHasNoState) {
  const auto optimizer = make(0.1, 0);
  EXPECT_EQ(optimizer->states(), 0);
  Step step = draw(1001);
  const Step before = step;
  update(*optimizer, step);
  for (size_t i = 0; i < step.w.size(); ++i) {
    const volatile float change = 0.1F * before.g[i];
    ASSERT_EQ(step.w[i], before.w[i] - change);
    ASSERT_EQ(step.g[i], before.g[i]);
  }
}

TEST_F(OptimizerTest, FirstMomentumStepFromZeroIsThePlainOne) {
  Step with = draw(100);
  Step without = with;
  std::fill(with.v.begin(), with.v.end(), 0.0F);
  update(*make(0.1, 0.9), with);
  update(*make(0.1, 0), without);
  EXPECT_EQ(with.w, without.w);
}

// GCC's OpenMP runtime is not built for it: every barrier would be reported as a race.
#ifdef __SANITIZE_THREAD__
constexpr bool kUnderThreadSanitizer = true;
#else
constexpr bool kUnderThreadSanitizer = false;
#endif

TEST_F(OptimizerTest, IsTheSameOnAnyNumberOfThreadsAndInAnyShares) {
  if (kUnderThreadSanitizer) GTEST_SKIP() << "OpenMP's barriers are unknown to ThreadSanitizer";
  const auto optimizer = make(0.02, 0.9);
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  Step whole = draw(200001);
  update(*optimizer, whole);
  omp_set_num_threads(3);
  Step threads = draw(200001);
  update(*optimizer, threads);
  omp_set_num_threads(before);
  EXPECT_EQ(threads.w, whole.w);
  EXPECT_EQ(threads.v, whole.v);

  const Step all = draw(200001);
  std::vector<float> joined;
  for (size_t begin = 0; begin < all.w.size(); begin += 66667) {
    const auto cut = [&](const std::vector<float>& values) {
      return std::vector<float>(values.begin() + static_cast<ptrdiff_t>(begin),
                                values.begin() + static_cast<ptrdiff_t>(begin + 66667));
    };
    Step share{cut(all.w), cut(all.g), cut(all.v)};
    update(*optimizer, share);
    joined.insert(joined.end(), share.w.begin(), share.w.end());
  }
  EXPECT_EQ(joined, whole.w);
}

TEST_F(OptimizerTest, RefusesOptionsThatMakeNoSense) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double rate : {0.0, -0.1, infinity, -infinity, std::nan(""), 1e-60, 1e60})
    EXPECT_EQ(refusal(rate, 0.9), ErrorCode::kUsage) << rate;
  for (const double momentum : {-0.1, 1.0, 1.5, infinity, std::nan(""), 1 - 1e-12})
    EXPECT_EQ(refusal(0.1, momentum), ErrorCode::kUsage) << momentum;
  EXPECT_EQ(refusal(0.1, 0.9, "adamant"), ErrorCode::kUsage);
}

TEST_F(OptimizerTest, RefusesTensorsThatDoNotMatch) {
  const auto optimizer = make(0.02, 0.9);
  Step step = draw(10);
  std::vector<float> shorter(9);
  const TensorView state = view(step.v);
  const TensorView wrong = view(shorter);
  EXPECT_THROW(optimizer->update(view(step.w), wrong, std::span(&state, 1)), Error);
  EXPECT_THROW(optimizer->update(view(step.w), view(step.g), std::span(&wrong, 1)), Error);
  EXPECT_THROW(optimizer->update(view(step.w), view(step.g), {}), Error);
}

}  // namespace
}  // namespace kerf::ops
