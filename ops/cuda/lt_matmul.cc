#include "ops/cuda/lt_matmul.h"

#include <algorithm>

#include "ops/cuda/cublas_check.h"
#include "ops/cuda/library_workspace.h"
#include "runtime/error.h"

namespace kerf::ops::cuda {
namespace {

// Eight partial results are as many as split sums gain from; more than 32 MiB no algorithm asks.
constexpr size_t kMostPartials = 8;
constexpr size_t kMostWorkspace = size_t{32} << 20U;

struct DestroyPreference {
  void operator()(cublasLtMatmulPreference_t preference) const {
    cublasLtMatmulPreferenceDestroy(preference);
  }
};

// What an algorithm may take for a result of `batch` times m x n.
size_t most_workspace(int64_t batch, int64_t m, int64_t n) {
  const size_t result = static_cast<size_t>(batch * m * n) * sizeof(float);
  return std::min(kMostPartials * result, kMostWorkspace);
}

}  // namespace

void LtMatmul::check(cublasStatus_t status, const char* call) const {
  check_cublas(status, call, bench_.queue());
}

uint32_t LtMatmul::alignment_of(int64_t elements) {
  uint32_t alignment = kAlignment;
  while (elements * int64_t{sizeof(float)} % alignment != 0) alignment /= 2;
  return alignment;
}

size_t LtMatmul::workspace_bytes(int64_t batch, int64_t m, int64_t n) {
  return with_library_alignment(most_workspace(batch, m, n));
}

LtMatmul::Layout LtMatmul::make_layout(int64_t rows, int64_t columns, int64_t batch,
                                       bool repeats) const {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, CUDA_R_32F, static_cast<uint64_t>(rows),
                                   static_cast<uint64_t>(columns), rows),
        "cublasLtMatrixLayoutCreate");
  Layout layout(made);
  if (batch == 1) return layout;
  const auto count = static_cast<int32_t>(batch);
  const int64_t apart = repeats ? 0 : rows * columns;
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                         sizeof count),
        "cublasLtMatrixLayoutSetAttribute");
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart,
                                         sizeof apart),
        "cublasLtMatrixLayoutSetAttribute");
  return layout;
}

void LtMatmul::point_bias(Plan& plan, const float* bias) const {
  check(cublasLtMatmulDescSetAttribute(plan.desc.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                       sizeof bias),
        "cublasLtMatmulDescSetAttribute");
}

LtMatmul::Plan LtMatmul::make_plan(const Problem& problem, size_t workspace) const {
  Plan plan;
  cublasLtMatmulDesc_t desc = nullptr;
  check(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  plan.desc.reset(desc);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  };
  const int32_t first = problem.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int32_t second = problem.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  set(CUBLASLT_MATMUL_DESC_TRANSA, first);
  set(CUBLASLT_MATMUL_DESC_TRANSB, second);
  if (problem.bias) {
    const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    // An address that says of its alignment what the problem says, and is not followed: that of a
    // bias, which happens to be a multiple of more, would have another algorithm.
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    point_bias(plan, reinterpret_cast<const float*>(uintptr_t{problem.alignment}));
  }
  const auto layout = [&](int64_t rows, int64_t columns, bool transpose, bool repeats) {
    return transpose ? make_layout(columns, rows, problem.batch, repeats)
                     : make_layout(rows, columns, problem.batch, repeats);
  };
  plan.first = layout(problem.n, problem.k, problem.transpose_b, false);
  plan.second = layout(problem.k, problem.m, problem.transpose_a, problem.repeats_a);
  plan.result = layout(problem.n, problem.m, false, false);
  choose(problem, workspace, plan);
  return plan;
}

void LtMatmul::choose(const Problem& problem, size_t workspace, Plan& plan) const {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, DestroyPreference> preference(made);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  const uint64_t most = workspace;
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most);
  // Partial sums in the workspace, which one more kernel adds in order; never in place, where
  // whoever comes first adds first.
  const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction);
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(operand, problem.alignment);
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      bench_.cublas_lt(), plan.desc.get(), plan.first.get(), plan.second.get(), plan.result.get(),
      plan.result.get(), made, 1, &result, &found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "cublasLtMatmulAlgoGetHeuristic");
  if (status != CUBLAS_STATUS_SUCCESS || found == 0 || result.state != CUBLAS_STATUS_SUCCESS)
    throw Error(ErrorCode::kUnavailable,
                format("cuBLASLt has no algorithm for a product of {} x {} by {} x {} in float32 "
                       "within {} bytes of workspace; run this worker on device cpu",
                       problem.m, problem.k, problem.k, problem.n, workspace),
                bench_.queue().name());
  plan.algorithm = result.algo;
  plan.workspace = result.workspaceSize;
}

void LtMatmul::run(Problem problem, const float* a, const float* b, const float* bias, float* y,
                   std::span<std::byte> workspace) {
  KERF_CHECK(problem.m > 0 && problem.n > 0 && problem.k > 0, "a product of {} x {} by {} x {}",
             problem.m, problem.k, problem.k, problem.n);
  problem.bias = bias != nullptr;
  const size_t granted = workspace_bytes(problem.batch, problem.m, problem.n);
  KERF_CHECK(workspace.size() >= granted, "{} bytes of workspace instead of {}", workspace.size(),
             granted);
  auto at = plans_.find(problem);
  if (at == plans_.end())
    at = plans_
             .emplace(problem,
                      make_plan(problem, most_workspace(problem.batch, problem.m, problem.n)))
             .first;
  Plan& plan = at->second;
  if (problem.bias) point_bias(plan, bias);
  const float beta = problem.accumulate ? 1.0F : 0.0F;
  check(cublasLtMatmul(bench_.cublas_lt(), plan.desc.get(), &problem.alpha, b, plan.first.get(), a,
                       plan.second.get(), &beta, y, plan.result.get(), y, plan.result.get(),
                       &plan.algorithm, aligned_for_library(workspace), plan.workspace,
                       bench_.queue().stream()),
        "cublasLtMatmul");
}

}  // namespace kerf::ops::cuda
