// Work of the host's processor on a GPU's memory: what it touches is copied to pinned memory, the
// work runs on a thread of the driver, and what it wrote is copied back, all in the order of the
// stream. The way for what is rare; what is not has a kernel.
//
// Owned by a stream; its thread. Pinned memory is taken for each piece of work and given back when
// the work has been done and something asks: enqueue(), collect() or the end.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cuda/cuda_check.h"
#include "runtime/host_work.h"

namespace kerf::runtime {

class StagedWork {
 public:
  explicit StagedWork(std::string where) : where_(std::move(where)) {}
  StagedWork(const StagedWork&) = delete;
  StagedWork& operator=(const StagedWork&) = delete;
  // The stream has nothing left to do.
  ~StagedWork() = default;

  void enqueue(const HostWork& work, cudaStream_t stream);
  // Gives back what is done; throws what work threw.
  void collect();

 private:
  struct FreePinned {
    void operator()(std::byte* data) const { ignore_cuda_error(cudaFreeHost(data)); }
  };
  struct Piece {
    std::byte* device = nullptr;
    std::unique_ptr<std::byte, FreePinned> host;
    size_t bytes = 0;
    bool written = false;
  };
  struct Task {
    std::unique_ptr<QueuedWork> work;
    std::vector<Piece> pieces;
    StagedWork* owner = nullptr;
    std::atomic<bool> done{false};
  };
  class Pieces;
  void enqueue(Task& task, cudaStream_t stream) const;
  static void run(void* task) noexcept;
  static void end(void* task) noexcept;

  const std::string where_;
  std::deque<std::unique_ptr<Task>> tasks_;
  std::mutex mutex_;  // guards failure_
  std::exception_ptr failure_;
};

}  // namespace kerf::runtime
