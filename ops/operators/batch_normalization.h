// BatchNormalization (ONNX, opset 15): every channel brought to mean 0 and variance 1, then scaled.
//
//   X [N, C, ...]   scale, B, input_mean, input_var [C]
//   Y [N, C, ...]   with training_mode 1 also running_mean, running_var [C]
//
// With `channels_last` (image_format.h) X and Y are [N, ..., C].
//
// With training_mode 1 the statistics are those of the micro-batch, and outputs 1 and 2 are they:
// the mean and, as ONNX's formula has it, the population variance (PyTorch keeps the unbiased one).
// The states input_mean and input_var follow them once per step, by `momentum`; forward does not
// touch them. In evaluation the states are used, and outputs 1 and 2 are the states. With
// training_mode 0 inputs 3 and 4 are used as they are; where they are activations (the statistics
// of a divided batch, by ChannelStatistics) they have gradients.
//
// Iterations: samples, channels, space. Training needs samples and space whole; all else divides.
// I hands W the sums over each channel, so that W reads nothing else.
#pragma once

#include "ops/image_format.h"

namespace kerf::ops {

// The attribute: how much of its states' statistics an operator keeps. Throws Error{kUsage}.
float momentum_of(std::string_view op, const Attributes& attributes);

class BatchNormalization final : public BoundOperator {
 public:
  explicit BatchNormalization(const NodeFacts& facts);

  bool training_mode() const { return training_mode_; }
  float epsilon() const { return epsilon_; }
  ImageFormat images() const { return format_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;
  // Per channel the mean, then per channel one by the deviation.
  size_t reserve_bytes(const LocalSpecs& local) const override;
  // Per channel the sum of dY, then per channel that of dY times the normalised X.
  size_t handed_bytes(const LocalSpecs& local) const override;
  std::vector<StateUpdate> state_updates() const override;

 private:
  void check(const Shape& x) const;  // X as ONNX has it

  ImageFormat format_;
  bool training_mode_;
  float epsilon_;
  float momentum_;
};

}  // namespace kerf::ops
