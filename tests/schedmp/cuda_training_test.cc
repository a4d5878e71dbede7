// Training on a GPU: what the CPU learns, with equal bits however many workers share it, in the
// memory that was proved. On a GPU that the host plays, and on a real one where there is one.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/schedmp/trained.h"
#include "tests/support/no_gpu.h"

namespace kerf::schedmp {
namespace {

using kerf::tests::no_gpu;
using tests::Answer;
using tests::Case;
using tests::Cut;
using tests::expect_same_bits;
using tests::train;

class TrainsOnAGpu : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string why = no_gpu(); !why.empty()) GTEST_SKIP() << why;
  }
  Case scene(int workers) const {
    Case c{GetParam(), Cut::kLayer, workers, "1f1b"};
    c.device = "cuda:0";
    if (GetParam() == "lenet5") c.steps = 2;
    return c;
  }
};

TEST_P(TrainsOnAGpu, WhatTheCpuLearns) {
  Case c = scene(1);
  const Answer there = train(c);
  c.device = "cpu";
  const Answer here = train(c);
  ASSERT_EQ(there.losses.size(), here.losses.size());
  for (size_t step = 0; step < here.losses.size(); ++step)
    EXPECT_NEAR(there.losses[step], here.losses[step], 1e-5 * here.losses[step]) << step;
  EXPECT_NEAR(there.evaluation_loss, here.evaluation_loss, 1e-5 * here.evaluation_loss);
  EXPECT_EQ(there.evaluated_rows, here.evaluated_rows);
}

TEST_P(TrainsOnAGpu, ToTheSameBitsOnSeveralWorkers) {
  const Answer alone = train(scene(1));
  const Answer together = train(scene(3));
  expect_same_bits(alone, together);
  tests::expect_counted_as_predicted(together);
}

TEST_P(TrainsOnAGpu, InTheMemoryThatWasProved) {
  const Answer answer = train(scene(2));
  for (size_t worker = 0; worker < answer.workers.size(); ++worker)
    EXPECT_EQ(answer.workers[worker].peak_bytes, answer.proved_bytes[worker]) << worker;
}

INSTANTIATE_TEST_SUITE_P(Models, TrainsOnAGpu,
                         testing::Values("12-24-18-10-5", "braided", "dropping", "filtering",
                                         "lenet5"),
                         [](const auto& param) {
                           std::string name = "of_" + param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// A feature cut sums gradients of several parts; a divided product leaves its bias to one of them.
TEST(DividedOnAGpu, LearnsWhatOneWorkerLearns) {
  if (const std::string why = no_gpu(); !why.empty()) GTEST_SKIP() << why;
  Case c{"12-24-18-10-5", Cut::kFeature, 1, "gpipe"};
  c.device = "cuda:0";
  const Answer alone = train(c);
  c.workers = 2;
  const Answer together = train(c);
  for (size_t step = 0; step < alone.losses.size(); ++step)
    EXPECT_NEAR(together.losses[step], alone.losses[step], 1e-5 * alone.losses[step]) << step;
}

}  // namespace
}  // namespace kerf::schedmp
