#include "runtime/cuda/staged_work.h"

#include <utility>

namespace kerf::runtime {

// Takes pinned memory for every piece that the work shows.
class StagedWork::Pieces final : public MemoryVisitor {
 public:
  Pieces(std::vector<Piece>& pieces, const std::string& where) : pieces_(pieces), where_(where) {}

 protected:
  std::byte* find(std::byte* data, size_t bytes, bool written) override {
    void* host = nullptr;
    check_cuda(cudaMallocHost(&host, bytes), "cudaMallocHost", where_);
    Piece& piece = pieces_.emplace_back();
    piece.device = data;
    piece.host.reset(static_cast<std::byte*>(host));
    piece.bytes = bytes;
    piece.written = written;
    return piece.host.get();
  }

 private:
  std::vector<Piece>& pieces_;
  const std::string& where_;
};

void StagedWork::enqueue(const HostWork& work, cudaStream_t stream) {
  collect();
  auto task = std::make_unique<Task>();
  task->work = work.queued();
  task->owner = this;
  Pieces pieces(task->pieces, where_);
  task->work->show(pieces);
  tasks_.push_back(std::move(task));
  try {
    enqueue(*tasks_.back(), stream);
  } catch (...) {
    ignore_cuda_error(cudaStreamSynchronize(stream));  // what of it was enqueued works on the task
    tasks_.pop_back();
    throw;
  }
}

void StagedWork::enqueue(Task& task, cudaStream_t stream) const {
  const auto copy = [&](std::byte* to, const std::byte* from, size_t bytes) {
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync",
               where_);
  };
  for (const Piece& piece : task.pieces) copy(piece.host.get(), piece.device, piece.bytes);
  check_cuda(cudaLaunchHostFunc(stream, run, &task), "cudaLaunchHostFunc", where_);
  for (const Piece& piece : task.pieces)
    if (piece.written) copy(piece.device, piece.host.get(), piece.bytes);
  check_cuda(cudaLaunchHostFunc(stream, end, &task), "cudaLaunchHostFunc", where_);
}

// Neither may call CUDA, nor throw into the driver.
void StagedWork::run(void* of) noexcept {
  Task& task = *static_cast<Task*>(of);
  try {
    task.work->run();
  } catch (...) {
    const std::lock_guard lock(task.owner->mutex_);
    if (!task.owner->failure_) task.owner->failure_ = std::current_exception();
  }
}

void StagedWork::end(void* of) noexcept { static_cast<Task*>(of)->done = true; }

void StagedWork::collect() {
  while (!tasks_.empty() && tasks_.front()->done) tasks_.pop_front();
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace kerf::runtime
