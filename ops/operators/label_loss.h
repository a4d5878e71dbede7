// Losses of labels (ONNX): SoftmaxCrossEntropyLoss, -log softmax(scores)[label] for every label,
// and NegativeLogLikelihoodLoss, which is given the logarithms.
//
//   scores [N, C] or [N, C, ...]   labels [N] or [N, ...] int64 or int32   weights [C], optional
//   loss: a scalar, or of the labels' shape with reduction `none`
//   log_prob, of SoftmaxCrossEntropyLoss where it is wanted, of the scores' shape
//
// What trains is a sum over samples that micro-batches and shares of rows add to: with reduction
// `sum`, and with `mean` where every label weighs the same: then a call divides the sum over its
// rows by one normaliser, the labels of the whole step. With weights or `ignore_index` a mean
// divides by what its own labels weigh: it is computed whole, and nothing to train from.
//
// Iterations: samples, classes (whole: a row's denominator needs all), positions.
#pragma once

#include <optional>

#include "ops/operator.h"

namespace kerf::ops {

enum class LossReduction : uint8_t { kNone, kMean, kSum };

class LabelLoss final : public BoundOperator {
 public:
  // `of_scores`: of what softmax is taken of.
  LabelLoss(const NodeFacts& facts, const char* name, bool of_scores);

  bool of_scores() const { return of_scores_; }
  LossReduction reduction() const { return reduction_; }
  std::optional<int64_t> ignored() const { return ignored_; }
  bool weighted() const { return has(2); }
  // Divides by what its own labels weigh.
  bool divides_by_weights() const {
    return reduction_ == LossReduction::kMean && (weighted() || ignored_);
  }
  // The mean over labels of int64 that weigh the same, and nothing else.
  bool is_plain() const;

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;
  // Per row the logarithm of the sum of exponentials, in double: the gradient's denominators. And
  // what the labels weigh.
  size_t reserve_bytes(const LocalSpecs& local) const override;
  bool is_loss() const override;
  Answers answers() const override;

 private:
  void check_shapes() const;

  bool of_scores_;
  LossReduction reduction_ = LossReduction::kMean;
  std::optional<int64_t> ignored_;
};

}  // namespace kerf::ops
