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

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/error.h"
#include "runtime/worker.h"
#include "schedmp/program.h"
#include "schedmp/variables/block_rotation.h"

namespace kerf::schedmp {

// For blocks of so many bytes at most.
LaneTable lanes_of_travelling_blocks(int workers, int blocks, int64_t most_bytes);

// How blocks come and go, whatever they consist of.
class BlockTravel {
 public:
  // Throws Error{kUsage} where the workplace has no CPU.
  BlockTravel(runtime::Workplace& workplace, int blocks);

  int worker() const { return workplace_.worker; }
  int blocks() const { return rotation_.rotations_per_turn(); }
  int home_blocks() const { return blocks() / workplace_.workers; }
  Visit visit(int64_t rotation) const { return rotation_.visit(workplace_.worker, rotation); }
  // Wait for the neighbour; where a visit has none, nothing happens.
  void receive(const Visit& visit, std::span<std::byte> block);
  void send(const Visit& visit, int64_t rotation, std::span<const std::byte> block);

 private:
  runtime::Workplace& workplace_;
  BlockRotation rotation_;
};

template <class Number>
class TravellingBlocks {
  static_assert(std::is_arithmetic_v<Number>);

 public:
  // sizes: of all blocks, in numbers. Those at home here begin as zeros. Throws Error{kUsage} where
  // the workplace has no CPU.
  TravellingBlocks(runtime::Workplace& workplace, std::vector<int64_t> sizes)
      : travel_(workplace, static_cast<int>(sizes.size())),
        sizes_(std::move(sizes)),
        here_(home_blocks()) {
    for (int place = 0; place < home_blocks(); ++place)
      values_.emplace_back(size_of(home_block(place)));
  }

  int blocks() const { return travel_.blocks(); }
  // Of the rotation that take() begins.
  int block() const { return travel_.visit(now_).block; }
  std::span<Number> take() {
    while (here_ <= now_) receive();
    return values_of(now_);
  }
  void give() {
    const Visit visit = travel_.visit(now_);
    const std::vector<Number>& values = values_of(now_);
    ++now_;
    travel_.send(visit, now_, std::as_bytes(std::span(values)));
  }

  // Behind a full turn: the blocks that are at home here, all of which it waits for.
  int home_blocks() const { return travel_.home_blocks(); }
  int home_block(int place) const { return travel_.worker() * home_blocks() + place; }
  std::span<Number> at_home(int place) {
    KERF_CHECK(now_ % blocks() == 0 && place >= 0 && place < home_blocks(), "place {}, rotation {}",
               place, now_);
    while (here_ < now_ + home_blocks()) receive();
    return values_[static_cast<size_t>(place)];
  }
  // What a snapshot holds of it behind a full turn: the blocks that are at home.
  template <class Archive>
  void serialize(Archive& archive) {
    for (int place = 0; place < home_blocks(); ++place) {
      const std::span<Number> block = at_home(place);
      std::vector<Number> values(block.begin(), block.end());
      archive(values);
      KERF_CHECK(values.size() == block.size(), "{} numbers of a block of {}", values.size(),
                 block.size());
      std::copy(values.begin(), values.end(), block.begin());
    }
  }

 private:
  size_t size_of(int block) const {
    return static_cast<size_t>(sizes_[static_cast<size_t>(block)]);
  }
  std::vector<Number>& values_of(int64_t rotation) {
    return values_[static_cast<size_t>(rotation % home_blocks())];
  }
  // The next that was not here.
  void receive() {
    const Visit visit = travel_.visit(here_);
    std::vector<Number>& values = values_of(here_);
    ++here_;
    values.resize(size_of(visit.block));
    travel_.receive(visit, std::as_writable_bytes(std::span(values)));
  }

  BlockTravel travel_;
  std::vector<int64_t> sizes_;
  int64_t now_ = 0;                          // rotations behind us
  int64_t here_ = 0;                         // those whose blocks have come
  std::vector<std::vector<Number>> values_;  // by rotation, modulo how many blocks are at home here
};

}  // namespace kerf::schedmp
