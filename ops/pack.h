// Pack and unpack: moving a box of a tensor between a local dense tensor and a dense message.
//
// A Region is computed once per (holder box, piece box, shape) and used for every micro-batch: it
// is a list of contiguous runs within one sample, repeated over the batch. Pure functions of
// memory; one thread at a time per destination. Host memory only. Large regions use the calling
// thread's OpenMP threads; every element is copied or added once, so their number changes no bit.
#pragma once

#include <span>
#include <vector>

#include "ops/layout.h"
#include "ops/tensor.h"

namespace kerf::ops {

// Where the elements of `piece` lie within the dense local tensor that holds `holder`. `spec` is
// the global tensor's. Throws Error{kInternal} unless holder contains piece, or if either divides a
// batch.
class Region {
 public:
  // Elements, within one sample of a batched tensor, within all of another.
  struct Run {
    int64_t at = 0;    // in the local tensor
    int64_t from = 0;  // in the dense piece
    int64_t count = 0;
  };

  Region() = default;
  Region(const Box& holder, const Box& piece, const ValueSpec& spec);

  // The piece is the whole holder: dense copy, or no copy at all.
  bool everything() const { return everything_; }
  // Ascending both in the local tensor and in the piece; as long as they can be.
  std::span<const Run> runs() const { return runs_; }
  // Bytes of the piece for a micro-batch of `samples` (ignored by unbatched tensors).
  size_t bytes(int64_t samples) const;

  void pack(const std::byte* local, std::byte* dense, int64_t samples) const;
  void unpack(const std::byte* dense, std::byte* local, int64_t samples) const;
  // float32 only: local += dense.
  void unpack_add(const std::byte* dense, std::byte* local, int64_t samples) const;

 private:
  int64_t repeats(int64_t samples) const { return batched_ ? samples : 1; }
  // Calls move(at, from, count) for every run of every sample, in elements from the start.
  template <class Move>
  void for_each_run(int64_t samples, const Move& move) const;

  std::vector<Run> runs_;
  int64_t local_stride_ = 0;  // elements per sample of the local tensor
  int64_t piece_stride_ = 0;  // elements per sample of the piece
  DType dtype_ = DType::kFloat32;
  bool batched_ = false;
  bool everything_ = false;
};

}  // namespace kerf::ops
