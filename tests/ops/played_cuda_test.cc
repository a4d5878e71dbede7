// The GPU that the host plays (tests/support/cuda_on_host/gpu.h) sees what it is there to see.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "tests/support/cuda_on_host/gpu.h"

namespace kerf::tests {
namespace {

struct WriteAt {
  float* to;
  int64_t index;
};

class PlayedCuda : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    cudaSetDevice(0);
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking);
  }
  void TearDown() override {
    cudaStreamDestroy(stream_);
    cudaStreamDestroy(other_);
    seed_gpu(1);
  }
  static void write(cudaStream_t stream, float* to, int64_t index = 0) {
    const WriteAt body{to, index};
    launch_on_gpu(stream, body, [body] { body.to[body.index] = 1; });
  }
  static float* allocate(int device, size_t bytes) {
    void* data = nullptr;
    cudaSetDevice(device);
    cudaMalloc(&data, bytes);
    cudaSetDevice(0);
    return static_cast<float*>(data);
  }
  // The order in which the two streams' pieces were done.
  std::string order(const std::function<void()>& between) {
    std::string done;
    const auto push = [&](cudaStream_t stream, char name) {
      launch_on_gpu(stream, int64_t{0}, [&done, name] { done += name; });
    };
    for (const char name : {'a', 'b'}) push(stream_, name);
    between();
    for (const char name : {'x', 'y'}) push(other_, name);
    cudaStreamSynchronize(stream_);
    cudaStreamSynchronize(other_);
    return done;
  }

  cudaStream_t stream_ = nullptr;
  cudaStream_t other_ = nullptr;
};

using PlayedCudaDeathTest = PlayedCuda;

TEST_F(PlayedCudaDeathTest, AKernelThatIsGivenHostMemoryDies) {
  std::vector<float> pageable(4);
  EXPECT_DEATH(write(stream_, pageable.data()), "WriteAt was given .*host that is not pinned");
  void* pinned = nullptr;
  cudaMallocHost(&pinned, 4);
  write(stream_, static_cast<float*>(pinned));
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(*static_cast<float*>(pinned), 1);
  cudaFreeHost(pinned);
}

TEST_F(PlayedCudaDeathTest, AKernelThatIsGivenAnotherGpusMemoryDies) {
  EXPECT_DEATH(write(stream_, allocate(1, 64)), "cuda:0: .*WriteAt was given .*another GPU");
}

TEST_F(PlayedCudaDeathTest, AKernelThatIsGivenFreeMemoryDies) {
  float* data = allocate(0, 64);
  cudaFree(data);
  EXPECT_DEATH(write(stream_, data), "memory that is free");
}

TEST_F(PlayedCudaDeathTest, WhoWritesBehindAnAllocationDies) {
  EXPECT_DEATH(
      {
        float* data = allocate(0, 64);
        write(stream_, data, 16);
        cudaFree(data);
      },
      "byte [0-3] behind an allocation of 64 bytes|AddressSanitizer");
}

TEST_F(PlayedCudaDeathTest, TheHostDiesOfTouchingTheDevice) {
  float* data = allocate(0, 64);
  EXPECT_DEATH(*data = 1, "");
  cudaFree(data);
}

TEST_F(PlayedCudaDeathTest, PinnedMemoryStaysUntilWorkIsDoneWithIt) {
  EXPECT_DEATH(
      {
        void* pinned = nullptr;
        cudaMallocHost(&pinned, 64);
        cudaMemcpyAsync(pinned, allocate(0, 64), 64, cudaMemcpyDefault, stream_);
        cudaFreeHost(pinned);
      },
      "cudaFreeHost: work that waits uses this memory");
}

TEST_F(PlayedCudaDeathTest, AFunctionOfTheHostThatCallsCudaDies) {
  EXPECT_DEATH(
      {
        cudaLaunchHostFunc(
            stream_, [](void*) { cudaSetDevice(0); }, nullptr);
        cudaStreamSynchronize(stream_);
      },
      "cudaSetDevice within a function of the host");
}

TEST_F(PlayedCuda, ACopyBeyondAnAllocationIsRefused) {
  float* data = allocate(0, 64);
  EXPECT_EQ(cudaMemcpyAsync(data, data + 1, 64, cudaMemcpyDefault, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(data, 0, 65, stream_), cudaErrorInvalidValue);
  cudaGetLastError();
  cudaFree(data);
}

TEST_F(PlayedCuda, StreamsTakeTurnsAsASeedSays) {
  std::set<std::string> orders;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    seed_gpu(seed);
    orders.insert(order([] {}));
  }
  EXPECT_EQ(orders, (std::set<std::string>{"abxy", "axby", "axyb", "xaby", "xayb", "xyab"}));
}

TEST_F(PlayedCuda, AStreamThatWaitsForAnEventIsBehindIt) {
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    seed_gpu(seed);
    EXPECT_EQ(order([&] {
                cudaEventRecord(event, stream_);
                cudaStreamWaitEvent(other_, event, 0);
              }),
              "abxy");
  }
  cudaEventDestroy(event);
}

}  // namespace
}  // namespace kerf::tests
