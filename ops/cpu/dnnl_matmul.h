// Matrix multiplication by oneDNN, with primitives cached by shape.
//
// Owned by a kernel; belongs to its thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "ops/cpu/dnnl_engine.h"

namespace kerf::ops::cpu {

// A row-major matrix of which the product sees the transpose, if asked.
struct Matrix {
  const float* data = nullptr;
  bool transposed = false;
};

class DnnlMatmul {
 public:
  // batch x: to[x] (m x n) = alpha * a[x] (m x k) * b[x] (k x n) + bias (n, may be null); adds to
  // what is there if `accumulate`. Bias goes with alpha 1 only.
  struct Problem {
    int64_t batch = 1;
    int64_t m = 0;
    int64_t n = 0;
    int64_t k = 0;
    float alpha = 1;
    bool accumulate = false;
    // From a row to the next, as it lies in memory, of a, b and the product; 0: rows lie dense.
    // Not 0: of one product only.
    std::array<int64_t, 3> strides{};
  };
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
