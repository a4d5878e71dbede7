// Pack and unpack: moving a box of a tensor between a local dense tensor and a dense message.
//
// A Selection (HDF5's word) is computed once per (holder box, piece box, shape) and used for every
// micro-batch: what lies within one index of the batch axis is a list of contiguous runs, and index
// sets of the batch axis are clipped to the micro-batch. Pure functions of memory; one thread at a
// time per destination. Host memory only. Large selections use the calling thread's OpenMP threads;
// every element is copied or added once, so their number changes no bit.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "ops/layout.h"
#include "ops/tensor.h"

namespace kerf::ops {

// Where the elements of `piece` lie within the dense local tensor that holds `holder`. `spec` is
// the global tensor's; a divided batch refers to the largest micro-batch. Throws Error{kInternal}
// unless holder contains piece.
class Selection {
 public:
  // Elements, within one index of the batch axis, or within all where there is none.
  struct Run {
    int64_t at = 0;    // in the local tensor
    int64_t from = 0;  // in the dense piece
    int64_t count = 0;
  };

  // Consecutive indices of one axis: in the tensor, in the local tensor and in the piece.
  struct Stretch {
    int64_t index = 0;
    int64_t local = 0;
    int64_t piece = 0;
    int64_t count = 0;
    int64_t clipped(int64_t extent) const { return std::clamp<int64_t>(extent - index, 0, count); }
  };
  // The piece along one axis of the tensor, for devices that go by elements: stretches, of which
  // only indices below `extent` count, and how far apart neighbours lie, in elements.
  struct AxisMap {
    std::span<const Stretch> stretches;
    int64_t extent = 0;
    int64_t local_stride = 0;
    int64_t piece_stride = 0;
  };

  Selection() = default;
  // `order`: the tensor's axes as the local tensor has them in memory, the slowest first; empty: in
  // their own order. Messages and files always have the tensor's.
  Selection(const Box& holder, const Box& piece, const ValueSpec& spec,
            std::vector<int> order = {});

  // The piece is the whole holder, in the same order: dense copy, or no copy at all.
  bool everything() const;
  DType dtype() const;
  // The same of copies, and of nothing else while somebody keeps it: for what is made of a
  // selection once. Null of a default one.
  std::shared_ptr<const void> identity() const { return facts_; }
  // Of every axis of the tensor, for a micro-batch of `samples`; of a piece that is not empty.
  std::vector<AxisMap> axis_maps(int64_t samples) const;
  // Ascending both in the local tensor and in the piece; as long as they can be. Of a local tensor
  // in the tensor's own order.
  std::span<const Run> runs() const;
  // Bytes of the piece for a micro-batch of `samples` (ignored by tensors without a batch axis).
  size_t bytes(int64_t samples) const;

  void pack(const std::byte* local, std::byte* dense, int64_t samples) const;
  void unpack(const std::byte* dense, std::byte* local, int64_t samples) const;
  // local += dense, of float32 and float64; and dense += local, of float32 only.
  void unpack_add(const std::byte* dense, std::byte* local, int64_t samples) const;
  void pack_add(const std::byte* local, std::byte* dense, int64_t samples) const;

 private:
  struct Axis;
  struct Facts;
  const Facts& facts() const;  // not of a default one, of which nobody asks more than identity()

  // Calls move(at, from, count) for every run, in elements from the start.
  template <class Move>
  void for_each_run(int64_t samples, const Move& move) const;
  template <class Move>
  void for_each_ordered(int64_t samples, const Move& move) const;

  std::shared_ptr<const Facts> facts_;  // copies share them
};

}  // namespace kerf::ops
