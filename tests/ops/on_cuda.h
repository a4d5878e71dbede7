// What tests of GPUs beside the CPU share: a device with its stream and workbench, of either.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "ops/workbench.h"
#include "tests/conformance/operator_fixture.h"
#include "tests/support/no_gpu.h"

namespace kerf::ops {

// A device with its stream and workbench.
struct CudaBench {
  explicit CudaBench(const std::string& name)
      : device(runtime::make_device(name)),
        stream(device->make_stream()),
        workbench(make_workbench(*device, *stream)) {}

  template <class T>
  runtime::Buffer filled(const std::vector<T>& values) {
    runtime::Buffer buffer = device->allocate(std::max<size_t>(1, values.size() * sizeof(T)));
    stream->copy(buffer.data(), values.data(), values.size() * sizeof(T));
    return buffer;
  }
  template <class T>
  std::vector<T> content(const runtime::Buffer& buffer, size_t count) {
    std::vector<T> values(count);
    stream->copy(values.data(), buffer.data(), count * sizeof(T));
    stream->synchronize();
    return values;
  }

  std::unique_ptr<runtime::Device> device;
  std::unique_ptr<runtime::Stream> stream;
  std::unique_ptr<Workbench> workbench;
};

// A test of a GPU, skipped where there is none.
class OnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = tests::no_gpu(); !why.empty()) GTEST_SKIP() << why;
    gpu_ = std::make_unique<CudaBench>("cuda:0");
  }
  std::array<CudaBench*, 2> both() { return {&cpu_, gpu_.get()}; }

  CudaBench cpu_{"cpu"};
  std::unique_ptr<CudaBench> gpu_;
};

inline std::vector<float> random_floats(size_t count, uint64_t seed) {
  Dice dice(seed);
  std::vector<float> values(count);
  for (float& each : values) each = dice.uniform();
  return values;
}

}  // namespace kerf::ops
