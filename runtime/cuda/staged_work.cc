#include "runtime/cuda/staged_work.h"

#include <utility>

namespace kerf::runtime {

// Takes pinned memory for every piece that the work shows.
class StagedWork::Pieces final : public MemoryVisitor {
 public:
  Pieces(StagedWork& owner, std::vector<Piece>& pieces) : owner_(owner), pieces_(pieces) {}

 protected:
  std::byte* find(std::byte* data, size_t bytes, bool written) override {
    return add({data, owner_.take_block(bytes), bytes, true, written});
  }
  std::byte* find_overwritten(std::byte* data, size_t bytes) override {
    return add({data, owner_.take_block(bytes), bytes, false, true});
  }

 private:
  std::byte* add(Piece piece) { return pieces_.emplace_back(std::move(piece)).block.host.get(); }

  StagedWork& owner_;
  std::vector<Piece>& pieces_;
};

void StagedWork::enqueue(const HostWork& work, cudaStream_t stream) {
  collect();
  tasks_.push_back(take_task());
  Task& task = *tasks_.back();
  try {
    task.work = work.queued();
    Pieces pieces(*this, task.pieces);
    task.work->show(pieces);
    enqueue(task, stream);
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
  for (const Piece& piece : task.pieces)
    if (piece.read) copy(piece.block.host.get(), piece.device, piece.bytes);
  check_cuda(cudaLaunchHostFunc(stream, run, &task), "cudaLaunchHostFunc", where_);
  for (const Piece& piece : task.pieces)
    if (piece.written) copy(piece.device, piece.block.host.get(), piece.bytes);
  check_cuda(cudaEventRecord(task.done.get(), stream), "cudaEventRecord", where_);
}

std::unique_ptr<StagedWork::Task> StagedWork::take_task() {
  if (!spare_.empty()) {
    std::unique_ptr<Task> task = std::move(spare_.back());
    spare_.pop_back();
    return task;
  }
  auto task = std::make_unique<Task>();
  task->owner = this;
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags",
             where_);
  task->done.reset(event);
  return task;
}

void StagedWork::give(std::unique_ptr<Task> task) {
  task->work.reset();
  for (Piece& piece : task->pieces) blocks_.push_back(std::move(piece.block));
  task->pieces.clear();
  spare_.push_back(std::move(task));
}

// The smallest that is large enough.
StagedWork::Block StagedWork::take_block(size_t bytes) {
  auto best = blocks_.end();
  for (auto each = blocks_.begin(); each != blocks_.end(); ++each)
    if (each->bytes >= bytes && (best == blocks_.end() || each->bytes < best->bytes)) best = each;
  if (best != blocks_.end()) {
    Block block = std::move(*best);
    *best = std::move(blocks_.back());
    blocks_.pop_back();
    return block;
  }
  void* host = nullptr;
  check_cuda(cudaMallocHost(&host, bytes), "cudaMallocHost", where_);
  Block block;
  block.host.reset(static_cast<std::byte*>(host));
  block.bytes = bytes;
  return block;
}

// May not call CUDA, nor throw into the driver.
void StagedWork::run(void* of) noexcept {
  Task& task = *static_cast<Task*>(of);
  try {
    task.work->run();
  } catch (...) {
    const std::lock_guard lock(task.owner->mutex_);
    if (!task.owner->failure_) task.owner->failure_ = std::current_exception();
  }
}

void StagedWork::collect() {
  while (!tasks_.empty()) {
    const cudaError_t status = cudaEventQuery(tasks_.front()->done.get());
    ignore_cuda_error(status);
    if (status != cudaSuccess) break;  // not yet, or never: whoever waits is told
    give(std::move(tasks_.front()));
    tasks_.pop_front();
  }
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace kerf::runtime
