// Products of row-major float32 matrices by cuBLASLt, one class as ops/cpu/dnnl_matmul.h is.
//
//   Y = alpha * A * B (+ bias) (+ Y)
//
// cuBLASLt sees columns first, where the transposes lie: Y' = B' * A', so its first operand is our
// second, and its rows are our columns, of which the bias has one number each.
//
// Algorithms are chosen once per problem, among those that compute in float32 (no TF32), take no
// more than the granted workspace and add in a fixed order. Owned by a kernel; its thread.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "ops/cuda/cuda_workbench.h"

namespace kerf::ops::cuda {

class LtMatmul {
 public:
  // Of `batch` products whose matrices follow one another, each m x k by k x n; where it repeats A,
  // of one matrix A with each of the batch: a strided batch of stride 0.
  struct Problem {
    int64_t batch = 1;
    bool repeats_a = false;
    int64_t m = 0;
    int64_t n = 0;
    int64_t k = 0;
    float alpha = 1;
    bool accumulate = false;
    bool transpose_a = false;  // A lies as k x m
    bool transpose_b = false;  // B lies as n x k
    bool bias = false;
    // What all pointers of the problem are multiples of; fixed by shapes, never by where memory
    // happens to lie: equal calls choose equal algorithms.
    uint32_t alignment = kAlignment;
    auto operator<=>(const Problem&) const = default;
  };
  static constexpr uint32_t kAlignment = 64;  // of tensors
  // Where matrices begin at multiples of so many elements within a tensor.
  static uint32_t alignment_of(int64_t elements);

  explicit LtMatmul(CudaWorkbench& bench) : bench_(bench) {}

  // What a product may take of workspace: room for partial sums of its result.
  static size_t workspace_bytes(int64_t batch, int64_t m, int64_t n);
  // Extents are at least 1. `bias` has n numbers, or is null.
  void run(Problem problem, const float* a, const float* b, const float* bias, float* y,
           std::span<std::byte> workspace);

 private:
  struct DestroyDesc {
    void operator()(cublasLtMatmulDesc_t desc) const { cublasLtMatmulDescDestroy(desc); }
  };
  struct DestroyLayout {
    void operator()(cublasLtMatrixLayout_t layout) const { cublasLtMatrixLayoutDestroy(layout); }
  };
  using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, DestroyLayout>;
  struct Plan {
    std::unique_ptr<cublasLtMatmulDescOpaque_t, DestroyDesc> desc;
    Layout first, second, result;
    cublasLtMatmulAlgo_t algorithm{};
    size_t workspace = 0;
  };

  void check(cublasStatus_t status, const char* call) const;
  Layout make_layout(int64_t rows, int64_t columns, int64_t batch, bool repeats) const;
  void point_bias(Plan& plan, const float* bias) const;
  Plan make_plan(const Problem& problem, size_t workspace) const;
  void choose(const Problem& problem, size_t workspace, Plan& plan) const;

  CudaWorkbench& bench_;
  std::map<Problem, Plan> plans_;
};

}  // namespace kerf::ops::cuda
