// RotaryEmbedding (ONNX, opset 23): pairs of numbers of a head turned by an angle that the position
// decides.
//
//   X [N, H, T, d], or [N, T, H * d] with num_heads H     Y likewise
//   cos_cache, sin_cache [N, T, r/2], or [P, r/2] with position_ids [N, T], an index into them
//
//   y1 = cos * x1 - sin * x2,   y2 = sin * x1 + cos * x2
//
// The first r = rotary_embedding_dim numbers of a head (0: all) are turned; with interleaved 1 a
// pair are neighbours, else r/2 apart. The gradient turns back. Caches have none.
//
// Iterations: samples, heads, positions; the width of a head stays whole.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class RotaryEmbedding final : public BoundOperator {
 public:
  explicit RotaryEmbedding(const NodeFacts& facts);

  int64_t width() const { return width_; }
  int64_t turned() const { return turned_; }  // r
  bool interleaved() const { return interleaved_; }
  bool side_by_side() const { return side_by_side_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  void check_caches(int64_t samples, int64_t positions) const;

  bool side_by_side_;
  bool interleaved_;
  int64_t width_ = 0;
  int64_t turned_ = 0;
};

}  // namespace kerf::ops
