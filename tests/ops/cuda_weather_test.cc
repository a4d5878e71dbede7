// Bad weather of GPUs: memory that is short, a GPU that is lost, errors that show late. Each is an
// Error that names the device, the call and the way out.
#include <gmock/gmock.h>

#include <algorithm>

#include "ops/cuda/kernel_memory.h"
#include "ops/workbench.h"
#include "runtime/cuda/cuda_check.h"
#include "runtime/host_work.h"
#include "runtime/inproc/inproc_pipe.h"
#include "tests/conformance/operator_fixture.h"
#include "tests/support/cuda_on_host/gpu.h"
#include "tests/support/errors.h"

namespace kerf::ops {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using tests::break_gpu;
using tests::error_of;
using tests::fail_next;

class CudaWeather : public testing::Test {
 protected:
  void TearDown() override { break_gpu(cudaSuccess); }

  // 2 x 3 by 3 x 4.
  void multiply() {
    const OperatorCase scene{.name = "product",
                             .op = "MatMul",
                             .inputs = {activation({kBatch, 3}), parameter({3, 4})},
                             .samples = 2};
    OperatorRunner kernel(bind(scene), *device_, 2);
    (void)kernel.forward(draw_inputs(scene, 2, 1), {.samples = 2});
  }

  void convolve() {
    const OperatorCase scene{.name = "convolution",
                             .op = "Conv",
                             .inputs = {activation({kBatch, 8, 4, 4}), parameter({2, 8, 3, 3})},
                             .samples = 2};
    OperatorRunner kernel(bind(scene), *device_, 2);
    (void)kernel.forward(draw_inputs(scene, 2, 1), {.samples = 2});
  }

  std::unique_ptr<runtime::Device> device_ = runtime::make_device("cuda:0");
  std::unique_ptr<runtime::Stream> stream_ = device_->make_stream();
};

TEST_F(CudaWeather, MemoryThatIsShortIsToldInBytes) {
  const auto error = error_of([&] { (void)device_->allocate(size_t{48} << 20U); });
  EXPECT_FALSE(error) << error->what();
  const auto held = device_->allocate(size_t{48} << 20U);
  const auto full = error_of([&] { (void)device_->allocate(size_t{32} << 20U); });
  ASSERT_TRUE(full);
  EXPECT_EQ(full->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(full->what(), AllOf(HasSubstr("cuda:0"), HasSubstr("33554432 bytes"),
                                  HasSubstr("are in use by this process")));
}

TEST_F(CudaWeather, PinnedMemoryThatIsShortNamesTheCallAndTheWayOut) {
  fail_next("cudaMallocHost", cudaErrorMemoryAllocation);
  const auto error = error_of([&] { (void)device_->allocate_pinned(100); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("cuda:0"), HasSubstr("cudaMallocHost"),
                                   HasSubstr("--micro-batches")));
}

TEST_F(CudaWeather, ALaunchThatFailsIsToldAtOnce) {
  const auto bench = make_workbench(*device_, *stream_);
  const runtime::Buffer x = device_->allocate(64);
  fail_next("launch", cudaErrorInvalidValue);
  const auto error = error_of([&] {
    bench->add_scalar({DType::kFloat32, {}, x.data()}, reinterpret_cast<double*>(x.data() + 32));
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kInternal);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("cuda:0"), HasSubstr("launch")));
}

TEST_F(CudaWeather, WhatAKernelDidWrongShowsLateAndSaysSo) {
  break_gpu(cudaErrorIllegalAddress);
  const auto error = error_of([&] { stream_->synchronize(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kDeviceLost);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("illegal memory access"), HasSubstr("earlier"),
                                   HasSubstr("CUDA_LAUNCH_BLOCKING=1")));
}

TEST_F(CudaWeather, AGpuThatIsLostIsLost) {
  break_gpu(cudaErrorECCUncorrectable);
  const auto error = error_of([&] { stream_->synchronize(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kDeviceLost);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("cuda:0"), HasSubstr("ECC"), HasSubstr("lost")));
}

// Of each of them every later call says the same: the context is gone. Of other errors it is not.
TEST_F(CudaWeather, WhateverEndsTheContextIsTheLossOfADevice) {
  for (const int status :
       {46, 100, 214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721})
    EXPECT_TRUE(runtime::is_device_lost(static_cast<cudaError_t>(status))) << status;
  for (const cudaError_t status :
       {cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation, cudaErrorNotReady,
        cudaErrorInsufficientDriver, cudaErrorInvalidDevice, cudaErrorUnknown})
    EXPECT_FALSE(runtime::is_device_lost(status)) << status;
}

// One that fails while it is opened was not there.
TEST_F(CudaWeather, AGpuThatCannotBeOpenedIsUnavailable) {
  for (const cudaError_t status : {cudaErrorDevicesUnavailable, cudaErrorECCUncorrectable}) {
    fail_next("cudaInitDevice", status);
    const auto error = error_of([] { (void)runtime::make_device("cuda:0"); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error->what(), HasSubstr("cuda:0"));
  }
}

TEST_F(CudaWeather, AGpuThatIsGoneWhenMemoryIsPinnedIsLost) {
  std::vector<std::byte> memory(4096);
  fail_next("cudaHostRegister", cudaErrorLaunchFailure);
  const auto error = error_of([&] { (void)device_->register_host(memory.data(), memory.size()); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kDeviceLost);
  EXPECT_THAT(error->what(), HasSubstr("cannot pin 4096 bytes"));
}

// What cuBLASLt says of a GPU that failed says less than CUDA does.
TEST_F(CudaWeather, AProductThatFailsIsToldInTheWordsOfCuda) {
  fail_next("launch", cudaErrorECCUncorrectable);
  const auto error = error_of([&] { multiply(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kDeviceLost);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("cuda:0"), HasSubstr("cublasLtMatmul"),
                                   HasSubstr("ECC"), HasSubstr("nvidia-smi")));
}

TEST_F(CudaWeather, AProductWithoutAlgorithmNamesItsSizesAndTheWayOut) {
  fail_next("cublasLtMatmulAlgoGetHeuristic", cudaErrorInvalidValue);
  const auto error = error_of([&] { multiply(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("cuda:0"), HasSubstr("2 x 3 by 3 x 4"),
                                   HasSubstr("run this worker on device cpu")));
}

// ---- cuDNN

TEST_F(CudaWeather, CudnnThatIsNotWholeIsNamedWithItsOwnWords) {
  fail_next("cudnnCreate", cudaErrorInvalidValue);
  const auto error = error_of([&] { convolve(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->what(),
              AllOf(HasSubstr("cuda:0"), HasSubstr("cudnnCreate"),
                    HasSubstr("SUBLIBRARY_LOADING_FAILED"), HasSubstr("libcudnn_graph.so.9"),
                    HasSubstr("install cuDNN 9"), HasSubstr("--device cpu")));
}

// With another engine the same run would have other bits when memory is there again.
TEST_F(CudaWeather, MemoryThatIsShortForAPlanOfCudnnChoosesNoOther) {
  fail_next("cudnnBackendFinalize of a plan", cudaErrorMemoryAllocation);
  const auto error = error_of([&] { convolve(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("cuda:0"), HasSubstr("cudnnBackendFinalize"),
                                   HasSubstr("DEVICE_ALLOCATION_FAILED"), HasSubstr("--workers")));
}

// The first launch is cuDNN's where no weights are turned.
TEST_F(CudaWeather, AConvolutionThatFailsIsToldInTheWordsOfCuda) {
  fail_next("launch", cudaErrorECCUncorrectable);
  const auto error = error_of([&] { convolve(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kDeviceLost);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("cuda:0"), HasSubstr("cudnnBackendExecute"),
                                   HasSubstr("ECC"), HasSubstr("nvidia-smi")));
}

// ---- work of the host

TEST_F(CudaWeather, WorkOfTheHostMovesWhatItReadsAndWhatItWrites) {
  const runtime::Buffer memory = device_->allocate(64);
  const auto copied = [&](runtime::Memory<float> piece) {
    const int64_t before = tests::gpu_counts().copied_bytes;
    runtime::launch(
        *stream_, [](float* x) { std::fill_n(x, 16, 1.0F); }, piece);
    stream_->synchronize();
    return tests::gpu_counts().copied_bytes - before;
  };
  auto* x = reinterpret_cast<float*>(memory.data());
  EXPECT_EQ(copied(runtime::memory(x, 16)), 2 * 64);
  EXPECT_EQ(copied(runtime::overwritten(x, 16)), 64);
}

TEST_F(CudaWeather, WorkOfTheHostUsesItsPinnedMemoryAgain) {
  const runtime::Buffer memory = device_->allocate(256);
  const auto taken = [&] {
    const int64_t before = tests::gpu_counts().pinned_allocations;
    for (const size_t count : {64U, 16U, 1U})
      runtime::launch(
          *stream_, [](float* each) { *each = 1; },
          runtime::memory(reinterpret_cast<float*>(memory.data()), count));
    stream_->synchronize();
    return tests::gpu_counts().pinned_allocations - before;
  };
  EXPECT_GT(taken(), 0);
  for (int step = 0; step < 20; ++step) (void)taken();
  EXPECT_EQ(taken(), 0);
}

// ---- memory of kernels

TEST_F(CudaWeather, KernelsHoldSoMuchMemoryAtMost) {
  cuda::KernelMemory memory("cuda:0");
  {
    const auto most = memory.allocate(cuda::KernelMemory::kMost);
    EXPECT_EQ(memory.bytes(), cuda::KernelMemory::kMost);
    const auto error = error_of([&] { (void)memory.allocate(1); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error->what(), AllOf(HasSubstr("cuda:0"), HasSubstr("32"), HasSubstr("cut")));
  }
  EXPECT_EQ(memory.bytes(), 0u);
}

TEST_F(CudaWeather, WhatAPieceTakesIsKeptOnce) {
  const auto bench = make_workbench(*device_, *stream_);
  const size_t before = bench->kernel_bytes();
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < 400; i += 2) indices.push_back(i);
  const Box all{{IndexSet{}, IndexSet{}}};
  const ValueSpec spec{DType::kFloat32, {2, 400}};
  const Selection selection(all, {{IndexSet{}, IndexSet::of(indices)}}, spec);
  const runtime::Buffer local = device_->allocate(spec.bytes(0));
  const runtime::Buffer dense = device_->allocate(selection.bytes(0));
  const auto pack = [&](const Selection& piece) {
    bench->pack(piece, {DType::kFloat32, {2, 400}, local.data()}, dense.data(), 0);
    return bench->kernel_bytes() - before;
  };
  // 200 stretches of a column each and one of rows, of three numbers.
  EXPECT_EQ(pack(selection), 201 * 3 * sizeof(int64_t));
  EXPECT_EQ(pack(selection), 201 * 3 * sizeof(int64_t));
  EXPECT_EQ(pack(Selection(selection)), 201 * 3 * sizeof(int64_t));
}

// ---- several GPUs

// Neither kernel reads the other's memory.
TEST_F(CudaWeather, ThreadsOnTwoGpusAreRefusedByName) {
  const auto bell = std::make_shared<runtime::InprocBell>();
  runtime::InprocPipe pipe({{.slot_bytes = 64, .slots = 1}}, runtime::make_device("cuda:0"), bell);
  const auto error = error_of([&] { pipe.set_receiver(runtime::make_device("cuda:1"), bell); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->what(),
              AllOf(HasSubstr("cuda:0"), HasSubstr("cuda:1"), HasSubstr("use processes")));
}

TEST_F(CudaWeather, TheReasonWhyThereIsNoGpuIsTold) {
  struct Weather {
    cudaError_t status;
    std::string part;
  };
  for (const auto& [status, part] :
       {Weather{cudaErrorNoDevice, "no GPU"}, Weather{cudaErrorInsufficientDriver, "driver"},
        Weather{cudaErrorUnknown, "an error of the played GPU"}}) {
    fail_next("cudaGetDeviceCount", status);
    const runtime::CudaSupport cuda = runtime::cuda_support();
    EXPECT_TRUE(cuda.built);
    EXPECT_EQ(cuda.devices, 0);
    EXPECT_THAT(cuda.reason, HasSubstr(part));
  }
  EXPECT_EQ(runtime::cuda_support().devices, tests::kGpus);
}

}  // namespace
}  // namespace kerf::ops
