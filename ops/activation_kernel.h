// A kernel of an operator whose inputs have gradients as activations only: nothing is left for W.
#pragma once

#include "ops/kernel.h"

namespace kerf::ops {

class ActivationKernel : public Kernel {
 public:
  explicit ActivationKernel(const BoundOperator& op) : of_(op) {}

  // Throws Error{kUsage}: a gradient that W adds up over micro-batches is not among what these
  // operators give.
  void weight_gradient(const Call&, std::span<const GradientTarget> targets) final {
    if (!targets.empty())
      throw Error(ErrorCode::kUsage,
                  format("a parameter goes through {}, which has gradients of activations only: "
                         "compute the parameter beforehand, or freeze it",
                         of_.name()));
  }

 private:
  const BoundOperator& of_;
};

}  // namespace kerf::ops
