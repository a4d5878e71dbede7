// Attention (ONNX, opset 23 to 25): softmax(scale * Q K^T + mask) V, head by head.
//
//   Q [N, Hq, T, d]   K [N, Hk, S, d]   V [N, Hk, S, e]   Y [N, Hq, T, e]
//
// or with the heads side by side, Q [N, T, Hq * d] and so on, with attributes q_num_heads and
// kv_num_heads. Hq / Hk query heads share a key head. The optional attn_mask is added to the scores
// (float32) or says which of them count (bool); its shape is repeated over [N, Hq, T, S] as NumPy
// does, and it has no gradient. is_causal: query t sees keys up to t; left_window_size and
// right_window_size bound how far it sees. softcap c: scores become c * tanh(score / c). A query
// that sees no key gets 0. past_key, past_value and nonpad_kv_seqlen are refused.
//
// Iterations: samples, heads (of keys), queries' heads of each (where there are several), queries;
// keys and the width of a head stay whole. Scores are computed by blocks of queries and are not
// kept: forward reserves each query's largest score and its sum of exponentials, from which I
// computes them again (Dao et al. 2022, "FlashAttention").
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class Attention final : public BoundOperator {
 public:
  explicit Attention(const NodeFacts& facts);

  // Queries whose scores are computed at once.
  static constexpr int64_t kQueryBlock = 64;

  // Extents of the whole, and of one call's operands.
  struct Extents {
    int64_t samples = 0;
    int64_t query_heads = 0;
    int64_t key_heads = 0;
    int64_t queries = 0;
    int64_t keys = 0;
    int64_t sharing() const { return query_heads / (key_heads > 0 ? key_heads : 1); }
  };
  Extents extents(const Shape& q, const Shape& k) const;
  int64_t width() const { return width_; }              // d
  int64_t value_width() const { return value_width_; }  // e
  bool side_by_side() const { return side_by_side_; }
  float scale() const { return scale_; }
  float softcap() const { return softcap_; }  // 0: none

  // The keys that query `t` of the whole sees.
  struct Keys {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t count() const { return end > begin ? end - begin : 0; }
  };
  Keys seen_by(int64_t t, int64_t keys) const;
  int queries_axis() const { return queries_axis_; }  // iteration axis

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;
  // Per sample, head and query its largest score, and 1 by its sum.
  size_t reserve_bytes(const LocalSpecs& local) const override;

 private:
  // Pairs of a query before `t` and a key that it sees.
  double seen_before(int64_t t, int64_t keys) const;
  void refuse(const NodeFacts& facts) const;
  void check_shapes(const NodeFacts& facts);
  void set_space();
  OperandMap mask_axes(const std::vector<int>& heads, int keys) const;

  bool side_by_side_ = false;
  bool causal_;
  int64_t left_;  // -1: all
  int64_t right_;
  float softcap_;
  float scale_ = 0;
  Extents whole_;
  int64_t width_ = 0;
  int64_t value_width_ = 0;
  int queries_axis_ = 0;
};

}  // namespace kerf::ops
