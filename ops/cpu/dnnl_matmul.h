// Matrix multiplication by oneDNN, with primitives cached by shape. Kernels hold a MatrixProduct
// (matrix_product.h), which comes here for what panels are not quicker for.
//
// Owned by a kernel; belongs to its thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "ops/cpu/dnnl_engine.h"
#include "ops/cpu/matmul_problem.h"

namespace kerf::ops::cpu {

class DnnlMatmul {
 public:
  using Problem = MatmulProblem;
  void run(const Problem& problem, Matrix a, Matrix b, const float* bias, float* to,
           const Workspace& workspace);
  // What it takes with so many threads; `has_bias`, and which of a and b are transposed.
  static size_t workspace_bytes(const Problem& problem, bool transposed_a, bool transposed_b,
                                bool has_bias, int threads);

 private:
  struct Plan {
    dnnl::matmul primitive;
    dnnl::memory a, b, bias, to;
    dnnl::memory scratch;
    int64_t scratch_bytes = 0;
  };
  using Key = std::array<int64_t, 11>;
  // What a product is described by.
  struct Description {
    dnnl::memory::desc a, b, bias, to;
    dnnl::matmul::primitive_desc primitive;
    int64_t scratch_bytes() const {
      return static_cast<int64_t>(primitive.scratchpad_desc().get_size());
    }
  };

  // `columns` are the columns of the product that are computed, of problem.n that there are.
  void run_columns(const Problem& problem, int64_t columns, Matrix a, Matrix b, const float* bias,
                   float* to, const Workspace& workspace);
  static Description describe(const Problem& problem, int64_t columns, bool transpose_a,
                              bool transpose_b, bool bias, size_t granted,
                              const DnnlEngine& engine);

  DnnlEngine engine_;
  std::map<Key, Plan> plans_;
};

}  // namespace kerf::ops::cpu
