// A worker's stream of a GPU, as kernels of this folder launch into it.
//
// A plain value, owned by the workbench, which makes its device current before a kernel is called.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "ops/cuda/kernel_memory.h"
#include "runtime/cuda/cuda_check.h"
#include "runtime/device.h"

namespace kerf::ops::cuda {

class Queue {
 public:
  // `of` is the stream of a CUDA device, called `name`; `memory` that of its kernels.
  Queue(runtime::Stream& of, std::string name, KernelMemory& memory)
      : of_(of), name_(std::move(name)), memory_(memory) {}

  cudaStream_t stream() const { return static_cast<cudaStream_t>(of_.native()); }
  runtime::Stream& runtime_stream() const { return of_; }
  const std::string& name() const { return name_; }  // "cuda:0"
  KernelMemory& memory() const { return memory_; }
  // Throws what was wrong with the launch just made, or shows now of earlier work.
  void check_launch() const {
    runtime::check_cuda(cudaGetLastError(), "the launch of a kernel", name_);
  }

 private:
  runtime::Stream& of_;
  std::string name_;
  KernelMemory& memory_;
};

}  // namespace kerf::ops::cuda
