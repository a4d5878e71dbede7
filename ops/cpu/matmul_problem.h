// What a product of matrices is, for whoever computes it.
#pragma once

#include <array>
#include <cstdint>

namespace kerf::ops::cpu {

// A row-major matrix of which the product sees the transpose, if asked.
struct Matrix {
  const float* data = nullptr;
  bool transposed = false;
};

// batch x: to[x] (m x n) = alpha * a[x] (m x k) * b[x] (k x n) + bias (n, may be null); adds to
// what is there if `accumulate`. Bias goes with alpha 1 only.
struct MatmulProblem {
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

}  // namespace kerf::ops::cpu
