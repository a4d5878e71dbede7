// Convolutions of float32 images by cuDNN (dnn_conv_plan.h), one class as lt_matmul.h is. A plan is
// made once per problem, whatever the addresses. Owned by a kernel; its thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "ops/cuda/cuda_workbench.h"
#include "ops/cuda/dnn_conv_plan.h"
#include "ops/workspace.h"

namespace kerf::ops::cuda {

class DnnConv {
 public:
  // One of them is written.
  struct Tensors {
    float* x = nullptr;
    float* w = nullptr;
    float* y = nullptr;
  };

  // By the engine that make_plan() has at `rank`: the first but in tests of the others.
  explicit DnnConv(CudaWorkbench& bench, int rank = 0) : bench_(bench), rank_(rank) {}

  // Of a problem, or one of fewer samples.
  static int64_t workspace_bytes(const DnnConvProblem& problem);
  // Whether cuDNN has an engine for it: the same for every call of the problem.
  bool has(const DnnConvProblem& problem) { return plan_of(problem).has_value(); }
  // Of a problem that it has.
  void run(const DnnConvProblem& problem, const Tensors& tensors, Workspace workspace);

 private:
  std::optional<DnnConvPlan>& plan_of(const DnnConvProblem& problem);

  CudaWorkbench& bench_;
  int rank_;
  std::map<DnnConvProblem, std::optional<DnnConvPlan>> plans_;
};

}  // namespace kerf::ops::cuda
