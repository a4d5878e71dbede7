// Products of float32 matrices, by panel_matmul.h, wide_panel_matmul.h or oneDNN, whichever is
// quickest on this processor.
//
// Owned by a kernel; belongs to its thread.
#pragma once

#include "ops/cpu/dnnl_matmul.h"

namespace kerf::ops::cpu {

class MatrixProduct {
 public:
  using Problem = MatmulProblem;
  void run(const Problem& problem, Matrix a, Matrix b, const float* bias, float* to,
           const Workspace& workspace);
  // Bytes for this problem with so many threads, within which one of fewer products, rows, columns
  // or terms runs, too. `has_bias`, and which of a and b are transposed.
  static size_t workspace_bytes(const Problem& problem, bool transposed_a, bool transposed_b,
                                bool has_bias, int threads);

 private:
  DnnlMatmul by_library_;
};

}  // namespace kerf::ops::cpu
