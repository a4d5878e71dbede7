// cuBLASLt's functions, as far as Kerf calls them, by the library that is loaded when one is first
// called.
#include <cublasLt.h>

#include "ops/cuda/at_first_use/library.h"

namespace {

// One of the library's, by its declaration.
template <auto kDeclared>
auto found(const char* name) {
  static const kerf::ops::cuda::Library kLibrary(KERF_CUBLAS_LT_NAME, KERF_CUBLAS_LT_FILE,
                                                 "the CUDA Toolkit");
  static const auto kFunction = reinterpret_cast<decltype(kDeclared)>(kLibrary.find(name));
  return kFunction;
}

}  // namespace

extern "C" {

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return found<&cublasLtGetStatusString>("cublasLtGetStatusString")(status);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* light_handle) {
  return found<&cublasLtCreate>("cublasLtCreate")(light_handle);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t light_handle) {
  return found<&cublasLtDestroy>("cublasLtDestroy")(light_handle);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t light_handle, cublasLtMatmulDesc_t compute_desc,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_size_in_bytes,
                              cudaStream_t stream) {
  return found<&cublasLtMatmul>("cublasLtMatmul")(light_handle, compute_desc, alpha, a, a_layout, b,
                                                  b_layout, beta, c, c_layout, d, d_layout, algo,
                                                  workspace, workspace_size_in_bytes, stream);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t light_handle, cublasLtMatmulDesc_t operation_desc,
    cublasLtMatrixLayout_t a_layout, cublasLtMatrixLayout_t b_layout,
    cublasLtMatrixLayout_t c_layout, cublasLtMatrixLayout_t d_layout,
    cublasLtMatmulPreference_t preference, int requested_algo_count,
    cublasLtMatmulHeuristicResult_t* heuristic_results_array, int* return_algo_count) {
  return found<&cublasLtMatmulAlgoGetHeuristic>("cublasLtMatmulAlgoGetHeuristic")(
      light_handle, operation_desc, a_layout, b_layout, c_layout, d_layout, preference,
      requested_algo_count, heuristic_results_array, return_algo_count);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* matmul_desc,
                                        cublasComputeType_t compute_type,
                                        cudaDataType_t scale_type) {
  return found<&cublasLtMatmulDescCreate>("cublasLtMatmulDescCreate")(matmul_desc, compute_type,
                                                                      scale_type);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmul_desc) {
  return found<&cublasLtMatmulDescDestroy>("cublasLtMatmulDescDestroy")(matmul_desc);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmul_desc,
                                              cublasLtMatmulDescAttributes_t attr, const void* buf,
                                              size_t size_in_bytes) {
  return found<&cublasLtMatmulDescSetAttribute>("cublasLtMatmulDescSetAttribute")(
      matmul_desc, attr, buf, size_in_bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* mat_layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  return found<&cublasLtMatrixLayoutCreate>("cublasLtMatrixLayoutCreate")(mat_layout, type, rows,
                                                                          cols, ld);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t mat_layout) {
  return found<&cublasLtMatrixLayoutDestroy>("cublasLtMatrixLayoutDestroy")(mat_layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t mat_layout,
                                                cublasLtMatrixLayoutAttribute_t attr,
                                                const void* buf, size_t size_in_bytes) {
  return found<&cublasLtMatrixLayoutSetAttribute>("cublasLtMatrixLayoutSetAttribute")(
      mat_layout, attr, buf, size_in_bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* pref) {
  return found<&cublasLtMatmulPreferenceCreate>("cublasLtMatmulPreferenceCreate")(pref);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref) {
  return found<&cublasLtMatmulPreferenceDestroy>("cublasLtMatmulPreferenceDestroy")(pref);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t attr,
                                                    const void* buf, size_t size_in_bytes) {
  return found<&cublasLtMatmulPreferenceSetAttribute>("cublasLtMatmulPreferenceSetAttribute")(
      pref, attr, buf, size_in_bytes);
}

}  // extern "C"
