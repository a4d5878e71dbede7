// Optimizers: what the action U does to a parameter.
//
// As PyTorch defines them (torch.optim, dampening 0): w the parameter, g its gradient, r the
// learning rate, t the step's number from 1:
//
//   sgd      g += decay * w;  v = momentum * v + g;  w -= r * v; Nesterov: r * (g + momentum * v)
//   adagrad  g += decay * w;  s += g * g;  w -= r * g / (sqrt(s) + epsilon)
//   adam     g += decay * w;  m = b1 * m + (1 - b1) * g;  v = b2 * v + (1 - b2) * g * g
//            w -= r / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + epsilon)
//   adamw    as adam, but w *= 1 - r * decay instead of adding to g
//
// With a most norm, g is multiplied before by what makes the norm of all gradients together at most
// that. Arithmetic is float32: every number above that follows from options and step is rounded to
// float once, each product, sum, quotient and root by itself. Plain values; an Optimizer has no
// state of its own: threads may share it, one at a time per parameter.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/tensor.h"

namespace kerf::ops {

struct OptimizerOptions {
  std::string name = "sgd";  // or "adagrad", "adam", "adamw"
  double learning_rate = 0.02;
  double momentum = 0.0;  // this and the next: of sgd
  bool nesterov = false;
  double beta1 = 0.9;  // this and the next: of adam and adamw
  double beta2 = 0.999;
  double epsilon = 1e-8;  // of all but sgd; PyTorch gives adagrad 1e-10
  double weight_decay = 0.0;
  // Parameters that do not decay: patterns of names (name_pattern.h).
  std::vector<std::string> no_decay = {};
  double most_norm = 0.0;  // of all gradients together; 0: whatever they are

  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, learning_rate, momentum, nesterov, beta1, beta2, epsilon, weight_decay, no_decay,
            most_norm);
  }
};

// Where in a run an update is: what the scheduler says with every step.
struct Pace {
  double learning_rate = 0;
  int64_t step = 1;  // from 1
};

// What there is a kernel for: sgd without momentum and with it; adamw is adam's.
enum class UpdateKind : uint8_t { kSgd, kMomentum, kAdagrad, kAdam };

// State tensors of the parameter's shape, zero at first.
constexpr int states_of(UpdateKind kind) {
  return kind == UpdateKind::kSgd ? 0 : kind == UpdateKind::kAdam ? 2 : 1;
}

inline constexpr int kMostStates = states_of(UpdateKind::kAdam);

// What a kernel for an update is told.
struct UpdateRule {
  UpdateKind kind = UpdateKind::kSgd;
  float rate = 0;      // adam's: with its correction
  float decay = 0;     // times the parameter, added to the gradient
  float kept = 1;      // times the parameter, before anything is taken off
  float epsilon = 0;   // adagrad and adam
  float momentum = 0;  // sgd, as the next
  bool nesterov = false;
  float beta1 = 0;  // adam, to `root`
  float one_less_beta1 = 0;
  float beta2 = 0;
  float one_less_beta2 = 0;
  float root = 1;  // what the square root is divided by
  double most_norm = 0;
};

// What the gradients are multiplied by where the sum of all their squares is this: 1 where no norm
// is too large.
float clip_scale(double most_norm, double squared_norm);

// On memory of the host, which is what other devices' workbenches do too: float32, element by
// element, all of one shape; gradient is only read: the first micro-batch of the next step
// overwrites it. Uses the calling thread's OpenMP threads where that pays; their number changes no
// bit.
void update(const UpdateRule& rule, float scale, const TensorView& parameter,
            const TensorView& gradient, std::span<const TensorView> states);

class Optimizer {
 public:
  // Throws Error{kUsage} on an unknown name, or a number that makes no sense.
  explicit Optimizer(OptimizerOptions options);

  int states() const { return states_of(kind()); }
  // Whether the parameter of this name decays, if any does.
  bool decays(const std::string& parameter) const;
  UpdateRule rule(const Pace& pace, bool decays) const;
  const OptimizerOptions& options() const { return options_; }

 private:
  UpdateKind kind() const;

  OptimizerOptions options_;
};

}  // namespace kerf::ops
