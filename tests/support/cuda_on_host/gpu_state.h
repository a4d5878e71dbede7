// What CUDA keeps for a process, for played GPUs (gpu.h): memory, streams with their work, and what
// has gone wrong.
//
// Work waits in its stream until somebody waits for it or asks; then it is done piece by piece, of
// whichever stream a seed says among those whose next piece may begin. One, guarded by its mutex.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/cuda_on_host/gpu.h"
#include "tests/support/cuda_on_host/gpu_memory.h"

namespace kerf::tests {

struct GpuLine;

// A point in the work of a stream, which may be gone; at first one that was always there.
struct GpuMoment {
  std::shared_ptr<const GpuLine> line;
  uint64_t at = 0;
  bool happened() const;
};

struct GpuItem {
  enum class By : uint8_t { kDevice, kDevices, kHost, kNobody };
  By by = By::kDevice;             // kNobody: it waits only
  std::function<void()> work;      // by the host it may not touch the device's memory
  GpuMoment after;                 // what it waits for
  std::vector<const void*> given;  // addresses that the work was given
  GpuKernel kernel;                // where it is one
};

// The work of a stream, which stays when the stream is destroyed.
struct GpuLine {
  int device = 0;
  std::deque<GpuItem> queue;
  uint64_t pushed = 0;
  uint64_t done() const { return pushed - queue.size(); }
};

class GpuState {
 public:
  // As the environment says (gpu.h).
  static GpuState& of_process();

  std::mutex mutex;
  GpuMemory memory{kGpus, kGpuMemory};
  std::map<const std::byte*, size_t> pinned;
  std::set<const std::byte*> registered;  // of those
  std::map<std::string, cudaError_t> failing;
  std::mt19937_64 random{1};
  GpuCounts counts;

  std::shared_ptr<GpuLine> make_line(int device);
  void push(GpuLine& line, GpuItem item);
  GpuMoment now(const std::shared_ptr<GpuLine>& line) const { return {line, line->pushed}; }
  // Until the moment has happened, the line is done, or everything is; or the GPU breaks.
  void run_until(const GpuMoment& moment);
  void run_all(const std::shared_ptr<GpuLine>& line) { run_until(now(line)); }
  void run_all();
  void run_one();  // a piece of work, where there is any

  // What is under way is lost.
  void break_with(cudaError_t error);
  cudaError_t broken() const { return broken_; }
  // Of one GPU, or of any.
  static constexpr int kAnyGpu = -1;
  void break_at(int device, const std::string& kernel, int others, cudaError_t error);

  bool is_pinned(const void* data, size_t bytes) const;
  bool is_any_pinned(const void* data, size_t bytes) const;
  bool is_pageable(const void* data) const { return !memory.holds(data) && !is_pinned(data, 0); }
  // Whether a copy may take these bytes for what they are.
  bool is_whole(const void* data, size_t bytes) const {
    return memory.holds(data) ? memory.is_allocated(data, bytes)
                              : !is_pinned(data, 0) || is_pinned(data, bytes);
  }
  // Dies where work that waits was given an address in [data, data + bytes).
  void check_unused(const void* data, size_t bytes, const char* call) const;
  // The addresses in what a kernel was given. Dies where it may not touch one.
  std::vector<const void*> addresses_of(const GpuKernel& kernel, int device) const;

 private:
  GpuState();

  struct Break {
    int device = kAnyGpu;
    std::string kernel;
    int others = 0;  // that do their work before
    cudaError_t error = cudaSuccess;
    std::string once;  // a file: of all that break so, only who makes it does; empty: all do
  };
  // False where nothing can be done. Leaves the memory open.
  bool step();
  bool breaks(const GpuItem& item, int device);

  std::vector<std::shared_ptr<GpuLine>> lines_;
  std::optional<Break> break_;
  cudaError_t broken_ = cudaSuccess;
};

// Whether this thread is within a function of cudaLaunchHostFunc(), which may not call CUDA.
bool in_host_function();

// Whether the process may write to all of it.
bool is_writable(const void* data, size_t bytes);

[[noreturn]] void die(const std::string& why);

}  // namespace kerf::tests
