// Pack and unpack: moving a box of a tensor between a local dense tensor and a dense message.
//
// A Region is computed once per (holder box, piece box, shape) and used for every micro-batch: it is a
// list of contiguous runs within one sample, repeated over the batch. Pure functions of memory; one
// thread at a time per destination.
#pragma once

#include <vector>

#include "ops/layout.h"
#include "ops/tensor.h"

namespace kerf::ops {

// Where the elements of `piece` lie within the dense local tensor that holds `holder`.
// Throws Error{kInternal} unless holder contains piece.
class Region {
 public:
  Region() = default;
  Region(const Box& holder, const Box& piece, const ValueSpec& spec);

  // The piece is the whole holder: dense copy, or no copy at all.
  bool everything() const { return everything_; }
  // Bytes of the piece for a micro-batch of `samples` (ignored by unbatched tensors).
  size_t bytes(int64_t samples) const;

  void pack(const std::byte* local, std::byte* dense, int64_t samples) const;
  void unpack(const std::byte* dense, std::byte* local, int64_t samples) const;
  // float32 only: local += dense.
  void unpack_add(const std::byte* dense, std::byte* local, int64_t samples) const;

 private:
  struct Run {
    int64_t at = 0;     // elements from the start of a local sample
    int64_t count = 0;  // elements
  };
  std::vector<Run> runs_;
  int64_t local_stride_ = 0;  // elements per sample of the local tensor
  int64_t piece_stride_ = 0;  // elements per sample of the piece
  size_t element_bytes_ = 4;
  bool batched_ = false;
  bool everything_ = false;
};

}  // namespace kerf::ops
