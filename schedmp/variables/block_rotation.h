// Block rotation: disjoint blocks of variables travel round a ring of workers, each of which works
// on one at a time. It is how a factor of a matrix (Gemulla et al., KDD 2011) and the words of a
// topic model (Zheng et al., arXiv:1411.2305; Kim et al., EuroSys 2016) are scheduled.
//
//   3 workers, 3 blocks             2 workers, 4 blocks
//   rotation   0  1  2 | 0          rotation   0  1  2  3 | 0
//   worker 0   0  1  2 | 0          worker 0   0  1  2  3 | 0
//   worker 1   1  2  0 | 1          worker 1   2  3  0  1 | 2
//   worker 2   2  0  1 | 2
//
// Worker w gets from its neighbour w + 1 and gives to w - 1, around the ring. In a full turn, as
// many rotations as there are blocks, every worker works on every block once; behind it all blocks
// are at home again, and every further turn is like the first. With m blocks for each worker a
// block is given on m rotations before it is worked on, so that it travels while m - 1 others are.
//
// A worker has m blocks, and a block is at one worker at any time. All answers take constant
// time. Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <optional>

namespace kerf::schedmp {

// What a worker does in one rotation.
struct Visit {
  int block = 0;
  std::optional<int> from;  // the neighbour that gives it; empty: it has been here from the start
  std::optional<int> to;    // whom it is given to behind this rotation; empty: it stays
  bool operator==(const Visit&) const = default;
};

class BlockRotation {
 public:
  // Throws Error{kUsage} unless there is a worker, and a multiple of workers as blocks.
  BlockRotation(int workers, int blocks);

  int rotations_per_turn() const { return blocks_; }
  // Rotations are numbered from 0 on, without end.
  Visit visit(int worker, int64_t rotation) const;
  // The worker that has the block in this rotation: works on it or will next.
  int holder(int block, int64_t rotation) const;
  // The worker that the block is loaded at before rotation 0.
  int home(int block) const { return holder(block, 0); }

 private:
  int workers_;
  int blocks_;
  int per_worker_;
};

}  // namespace kerf::schedmp
