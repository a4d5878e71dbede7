// Training on a GPU that the host plays: what only such a GPU can be made to do, and lets count.
#include <gmock/gmock.h>

#include "runtime/error.h"
#include "tests/schedmp/trained.h"
#include "tests/support/cuda_on_host/gpu.h"
#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

using kerf::tests::error_of;
using kerf::tests::gpu_counts;
using kerf::tests::GpuCounts;
using testing::AllOf;
using testing::HasSubstr;
using tests::Answer;
using tests::Case;
using tests::expect_same_bits;
using tests::train;

// Whatever order streams take that events allow.
TEST(TurnsOfAGpu, ChangeNoBit) {
  Case c{"braided", tests::Cut::kLayer, 3, "1f1b"};
  c.device = "cuda:0";
  const Answer first = train(c);
  for (const uint64_t seed : {2U, 3U}) {
    kerf::tests::seed_gpu(seed);
    expect_same_bits(train(c), first);
  }
}

// Of what steps beyond the first do; of one epoch, behind which everything is evaluated.
class SteadyOnAGpu : public testing::Test {
 protected:
  static GpuCounts counts_of(int64_t steps) {
    Case c{"12-24-18-10-5"};
    c.device = "cuda:0";
    c.steps = steps;
    const GpuCounts before = gpu_counts();
    (void)train(c);
    const GpuCounts after = gpu_counts();
    return {after.allocations - before.allocations,
            after.pinned_allocations - before.pinned_allocations, after.launches - before.launches,
            after.host_functions - before.host_functions, after.copied_bytes - before.copied_bytes};
  }
};

TEST_F(SteadyOnAGpu, TakesNoMemory) {
  EXPECT_EQ(counts_of(3).allocations, counts_of(1).allocations);
}

// For each of four micro-batches its inputs and its labels are read, and the step is concluded.
TEST_F(SteadyOnAGpu, CallsTheHostForDataAndForTheStepAlone) {
  EXPECT_EQ(counts_of(3).host_functions - counts_of(1).host_functions, 2 * (4 * 2 + 1));
}

// They are written before the first step and read behind the last, a megabyte at a time: never more
// than what is written or read.
TEST(WeightsOnAGpu, TravelOnceEachWay) {
  Case c{"12-100000-5"};
  c.device = "cuda:0";
  c.steps = 1;
  const int64_t before = gpu_counts().copied_bytes;
  (void)train(c);
  const int64_t copied = gpu_counts().copied_bytes - before;
  const int64_t weights = int64_t{4} * (12 * 100'000 + 100'000 + 100'000 * 5 + 5);
  EXPECT_GE(copied, 2 * weights);
  EXPECT_LT(copied, 2 * weights + weights / 4) << "what a step reads is less than that";
}

class LostGpu : public testing::Test {
 protected:
  static Case scene() {
    Case c{"12-24-18-10-5"};
    c.device = "cuda:0";
    return c;
  }
  void TearDown() override {
    kerf::tests::break_gpu(cudaSuccess);
    Case c = scene();
    c.steps = 1;
    EXPECT_FALSE(error_of([&] { (void)train(c); })) << "the next run is not harmed";
  }
};

TEST_F(LostGpu, IsToldAtTheLaunchThatItRefuses) {
  kerf::tests::fail_next("launch", cudaErrorECCUncorrectable);
  const auto error = error_of([&] { (void)train(scene()); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kLost);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("worker 0"), HasSubstr("cuda:0"), HasSubstr("fc1"),
                                   HasSubstr("step 0: 0F0")));
}

// What a kernel does wrong when it runs, the host hears of when it asks for something else.
struct Late {
  std::string name;
  std::string source;
  std::string kernel;
  int others;         // of its launches that go well
  std::string where;  // the operator and the action, "fc1, step 0: 0F0"
};

class LateOnAGpu : public LostGpu, public testing::WithParamInterface<Late> {};

TEST_P(LateOnAGpu, IsToldWithTheOperatorThatDidIt) {
  Case c = scene();
  c.source = GetParam().source;
  kerf::tests::break_gpu_at(GetParam().kernel, GetParam().others, cudaErrorIllegalAddress);
  const auto error = error_of([&] { (void)train(c); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kLost);
  EXPECT_THAT(error->what(),
              AllOf(HasSubstr("worker 0"), HasSubstr("cuda:0, " + GetParam().where),
                    HasSubstr("illegal memory access"), HasSubstr("CUDA_LAUNCH_BLOCKING=1")));
}

// Per micro-batch a forward pass has a product of each layer, and a backward pass two but for the
// first layer, whose input has no gradient.
INSTANTIATE_TEST_SUITE_P(
    Kernels, LateOnAGpu,
    testing::Values(
        Late{"the_first_product", "12-24-18-10-5", "cublasLtMatmulRun", 0, "fc1, step 0: 0F0"},
        Late{"a_product_later_on", "12-24-18-10-5", "cublasLtMatmulRun", 2, "fc3, step 0: 0F0"},
        Late{"a_loss", "12-24-18-10-5", "RowLoss", 1, "loss, step 0: 0F1"},
        Late{"an_update", "12-24-18-10-5", "UpdateStep", 0, "step 0: 0U"},
        Late{"a_pool", "lenet5", "TakeLargest", 0, "pool1, step 0: 0F0"},
        Late{"a_convolution", "lenet5", "cudnnConvolutionRun", 1, "conv2, step 0: 0F0"}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace kerf::schedmp
