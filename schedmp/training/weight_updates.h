// Who makes new weights of the gradients of a step, where that is not the worker's own optimizer
// alone: tables that replicas share, or L-BFGS, which wants the gradients themselves.
#pragma once

#include <cstdint>
#include <span>

#include "ops/kernel.h"
#include "ops/tensor.h"
#include "ops/workbench.h"

namespace kerf::schedmp {

class WeightUpdates {
 public:
  struct Home {
    int local = -1;  // of the part: its weights
    ops::TensorView gradient;
  };
  struct Step {
    int64_t number = 0;  // of training, from 1
    int64_t rows = 0;    // that it had
    bool ends = false;   // what comes behind it is no step
    double learning_rate = 0;
    ops::StepSays says;  // in memory of the device
  };

  virtual ~WeightUpdates() = default;
  // Once a step for each part of this worker that has homes; the gradients are in the stream.
  // Behind it, what is in the stream may read the homes.
  virtual void update(size_t part, std::span<const Home> homes, const Step& step) = 0;
  // How long it has waited for others, in all.
  virtual int64_t waited_ns() const { return 0; }
};

}  // namespace kerf::schedmp
