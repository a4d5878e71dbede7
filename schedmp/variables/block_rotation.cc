#include "schedmp/variables/block_rotation.h"

#include "runtime/error.h"

namespace kerf::schedmp {

BlockRotation::BlockRotation(int workers, int blocks) : workers_(workers), blocks_(blocks) {
  if (workers < 1)
    throw Error(ErrorCode::kUsage, format("blocks cannot rotate over {} workers", workers));
  if (blocks < 1 || blocks % workers != 0)
    throw Error(ErrorCode::kUsage,
                format("{} blocks cannot rotate over {} workers: take a multiple of {}", blocks,
                       workers, workers));
  per_worker_ = blocks / workers;
}

Visit BlockRotation::visit(int worker, int64_t rotation) const {
  KERF_CHECK(worker >= 0 && worker < workers_ && rotation >= 0, "worker {}, rotation {}", worker,
             rotation);
  Visit visit;
  visit.block = static_cast<int>((int64_t{worker} * per_worker_ + rotation) % blocks_);
  if (workers_ == 1) return visit;
  if (rotation >= per_worker_) visit.from = (worker + 1) % workers_;
  visit.to = (worker + workers_ - 1) % workers_;
  return visit;
}

int BlockRotation::holder(int block, int64_t rotation) const {
  KERF_CHECK(block >= 0 && block < blocks_ && rotation >= 0, "block {}, rotation {}", block,
             rotation);
  // Worker w works on it when w x per_worker_ + rotation is the block, around the ring: now, or in
  // the first rotation from now on in which that has an answer.
  const auto ahead = static_cast<int>((block + blocks_ - rotation % blocks_) % blocks_);
  return ahead / per_worker_;
}

}  // namespace kerf::schedmp
