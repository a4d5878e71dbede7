// A step of a whole model in float64, forward and backward, by reference_operators.h: what any
// division of it on Kerf's kernels is compared with.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/partitioner/step_data.h"

namespace kerf::partitioner {

// Whole tensors, as StepResult (part_runner.h) names them.
struct ReferenceResult {
  using Tensors = std::map<std::string, std::vector<double>>;
  std::vector<double> losses;  // by micro-batch
  Tensors values;              // by name and micro-batch
  Tensors gradients;           // of parameters
  Tensors states;              // after the step
};

ReferenceResult reference_step(const Model& model, const std::vector<int64_t>& sizes,
                               Numbers numbers);

}  // namespace kerf::partitioner
