// Optimizers: what the action U does to a parameter.
//
// SGD with momentum as PyTorch defines it: v = momentum * v + g; w = w - lr * v. Arithmetic is
// float32 with learning rate and momentum rounded to float once, each product and sum rounded by
// itself. An Optimizer has no state of its own: threads may share it, one at a time per parameter.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "ops/tensor.h"

namespace kerf::ops {

struct OptimizerOptions {
  std::string name = "sgd";
  double learning_rate = 0.02;
  double momentum = 0.0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, learning_rate, momentum);
  }
};

// What a kernel for an update is told.
struct SgdRule {
  float learning_rate = 0;
  float momentum = 0;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // State tensors of the parameter's shape, zero at first: 0 for SGD, 1 with momentum.
  virtual int states() const = 0;
  virtual SgdRule rule() const = 0;
  // On memory of the host; other devices' workbenches do by rule() what this does. float32, element
  // by element, all of one shape; gradient is only read: the first micro-batch of the next step
  // overwrites it. Uses the calling thread's OpenMP threads where that pays; their number changes
  // no bit.
  virtual void update(const TensorView& parameter, const TensorView& gradient,
                      std::span<const TensorView> states) const = 0;
};

// Throws Error{kUsage} on an unknown name, a learning rate that is not positive and finite, or a
// momentum outside [0, 1); Error{kUnavailable} for a device that it has no kernel for.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, runtime::Device& device);

}  // namespace kerf::ops
