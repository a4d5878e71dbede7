// Blocks of numbers that travel round the ring of workers from neighbour to neighbour, as
// BlockRotation says: one worker's end of it. The scheduler sees none of them.
//
//   rotation by rotation:   values = take()   waits for the neighbour, where it has to
//                           ... work on values, which are those of block() ...
//                           give()            hands it on
//
// Between two rotations a worker has some of its blocks here, others are on their way. Used by the
// compute thread; the workplace outlives it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/worker.h"
#include "schedmp/program.h"
#include "schedmp/variables/block_rotation.h"

namespace kerf::apps {

// For blocks of so many numbers at most.
schedmp::LaneTable lanes_of_travelling_blocks(int workers, int blocks, int64_t most_numbers);

class TravellingBlocks {
 public:
  // sizes: of all blocks, in numbers. Those at home here begin as zeros. Throws Error{kUsage} where
  // the workplace has no CPU.
  TravellingBlocks(runtime::Workplace& workplace, std::vector<int64_t> sizes);

  int blocks() const { return static_cast<int>(sizes_.size()); }
  // Of the rotation that take() begins.
  int block() const { return rotation_.visit(workplace_.worker, now_).block; }
  std::span<float> take();
  void give();

  // Behind a full turn: the blocks that are at home here, all of which it waits for.
  int home_blocks() const { return blocks() / workplace_.workers; }
  int home_block(int place) const { return workplace_.worker * home_blocks() + place; }
  std::vector<float>& at_home(int place);

 private:
  void receive();

  runtime::Workplace& workplace_;
  schedmp::BlockRotation rotation_;
  std::vector<int64_t> sizes_;
  int64_t now_ = 0;                         // rotations behind us
  int64_t here_ = 0;                        // those whose blocks have come
  std::vector<std::vector<float>> values_;  // by rotation, modulo how many blocks are at home here
};

}  // namespace kerf::apps
