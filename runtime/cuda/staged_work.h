// Work of the host's processor on a GPU's memory: what it reads is copied to pinned memory, the
// work runs on a thread of the driver, and what it wrote is copied back, all in the order of the
// stream. The way for what is rare; what is not has a kernel.
//
// Owned by a stream; its thread. Pinned memory and events are kept and used again when the work has
// been done and something asks: as much as was ever under way at once.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
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
  // Takes back what is done; throws what work threw.
  void collect();

 private:
  struct FreePinned {
    void operator()(std::byte* data) const { ignore_cuda_error(cudaFreeHost(data)); }
  };
  struct DestroyEvent {
    void operator()(cudaEvent_t event) const { ignore_cuda_error(cudaEventDestroy(event)); }
  };
  struct Block {
    std::unique_ptr<std::byte, FreePinned> host;
    size_t bytes = 0;
  };
  struct Piece {
    std::byte* device = nullptr;
    Block block;
    size_t bytes = 0;
    bool read = true;
    bool written = false;
  };
  struct Task {
    std::unique_ptr<QueuedWork> work;
    std::vector<Piece> pieces;
    StagedWork* owner = nullptr;
    std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent> done;
  };
  class Pieces;
  std::unique_ptr<Task> take_task();
  void give(std::unique_ptr<Task> task);
  Block take_block(size_t bytes);
  void enqueue(Task& task, cudaStream_t stream) const;
  static void run(void* task) noexcept;

  const std::string where_;
  std::deque<std::unique_ptr<Task>> tasks_;   // under way
  std::vector<std::unique_ptr<Task>> spare_;  // without work and pieces
  std::vector<Block> blocks_;                 // that nobody uses
  std::mutex mutex_;                          // guards failure_
  std::exception_ptr failure_;
};

}  // namespace kerf::runtime
