// cuBLASLt for played GPUs: float32, columns first, plain loops.
#include <cublasLt.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/support/cuda_on_host/gpu.h"

struct cublasLtContext {};

struct cublasLtMatmulDescOpaque_t {
  int32_t transpose_a = CUBLAS_OP_N;
  int32_t transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float* bias = nullptr;
};

struct cublasLtMatrixLayoutOpaque_t {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t ld = 0;
  int32_t batch = 1;
  int64_t stride = 0;
};

struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace = 0;
  uint32_t reduction = 7;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

namespace {

constexpr uint64_t kMostAlignment = 256;  // of which anybody asks
constexpr uint64_t kWorkspaceAlignment = 256;

using Layout = cublasLtMatrixLayoutOpaque_t;

template <class T>
cublasStatus_t set(T& to, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// A matrix of a batch, seen through its operation.
struct Operand {
  const float* data;
  Layout layout;
  bool transposed;
  int64_t rows() const { return transposed ? layout.columns : layout.rows; }
  int64_t columns() const { return transposed ? layout.rows : layout.columns; }
  float at(int64_t batch, int64_t row, int64_t column) const {
    const float* matrix = data + batch * layout.stride;
    return transposed ? matrix[row * layout.ld + column] : matrix[column * layout.ld + row];
  }
};

struct Product {
  Operand a;
  Operand b;
  float alpha;
  float beta;
  const float* bias;
  float* d;
  Layout result;

  void run() const {
    const auto m = static_cast<size_t>(a.rows());
    std::vector<float> dense(m * static_cast<size_t>(a.columns()));
    std::vector<float> sums(m);
    for (int64_t batch = 0; batch < result.batch; ++batch) {
      for (int64_t k = 0; k < a.columns(); ++k)
        for (size_t i = 0; i < m; ++i)
          dense[static_cast<size_t>(k) * m + i] = a.at(batch, static_cast<int64_t>(i), k);
      for (int64_t j = 0; j < b.columns(); ++j) {
        std::fill(sums.begin(), sums.end(), 0.0F);
        for (int64_t k = 0; k < a.columns(); ++k) {
          const float factor = b.at(batch, k, j);
          const float* column = dense.data() + static_cast<size_t>(k) * m;
          for (size_t i = 0; i < m; ++i) sums[i] += factor * column[i];
        }
        put(d + batch * result.stride + j * result.ld, sums);
      }
    }
  }

 private:
  void put(float* column, const std::vector<float>& sums) const {
    for (size_t i = 0; i < sums.size(); ++i) {
      const float old = beta == 0 ? 0.0F : beta * column[i];  // which is not read where beta is 0
      column[i] = alpha * sums[i] + old + (bias == nullptr ? 0.0F : bias[i]);
    }
  }
};

// What a launch is given.
// NOLINTNEXTLINE(readability-identifier-naming): a kernel of the library's, by its name
struct cublasLtMatmulRun {
  Product product;
  void* workspace;
  uint64_t bytes;
};

// Whether the operands make a product.
bool fits(const cublasLtMatmulDescOpaque_t& desc, const Layout& a, const Layout& b,
          const Layout& d) {
  const bool ta = desc.transpose_a == CUBLAS_OP_T;
  const bool tb = desc.transpose_b == CUBLAS_OP_T;
  const int64_t inner = ta ? a.rows : a.columns;
  if ((tb ? b.columns : b.rows) != inner || inner < 1) return false;
  if ((ta ? a.columns : a.rows) != d.rows || (tb ? b.rows : b.columns) != d.columns) return false;
  return a.batch == d.batch && b.batch == d.batch;
}

// What the address of the bias says of its alignment when an algorithm is chosen; 0 without one.
uint64_t bias_alignment(const cublasLtMatmulDescOpaque_t& desc) {
  if (desc.epilogue != CUBLASLT_EPILOGUE_BIAS) return 0;
  const auto address = reinterpret_cast<uintptr_t>(desc.bias);
  return std::min<uint64_t>(kMostAlignment, address & (~address + 1));
}

// What an algorithm was chosen for: it is for nothing else.
cublasLtMatmulAlgo_t algorithm_for(const cublasLtMatmulDescOpaque_t& desc, const Layout& a,
                                   const Layout& b, const Layout& d, uint64_t workspace,
                                   uint64_t alignment, uint64_t of_bias) {
  const auto word = [](int64_t number) { return static_cast<uint64_t>(number); };
  return {{word(desc.transpose_a * 2 + desc.transpose_b), desc.epilogue,
           word(a.rows * 1'000'003 + a.columns), word(b.rows * 1'000'003 + b.columns),
           word(d.batch * 4 + (a.stride == 0 ? 2 : 0) + (b.stride == 0 ? 1 : 0)), workspace,
           alignment, of_bias}};
}

bool aligned(const void* data, uint64_t alignment) {
  return data != nullptr && reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
      return "CUBLAS_STATUS_INVALID_VALUE";
  }
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *desc = new cublasLtMatmulDescOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(desc->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(desc->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(desc->bias, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  if (type != CUDA_R_32F || rows == 0 || columns == 0 || ld < static_cast<int64_t>(rows))
    return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new Layout{static_cast<int64_t>(rows), static_cast<int64_t>(columns), ld, 1, 0};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  return attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? set(layout->batch, value, bytes)
                                                         : set(layout->stride, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(preference->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(preference->reduction, value, bytes);
    default:
      return set(preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
                 value, bytes);
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  *found = 0;
  if (kerf::tests::takes_failure("cublasLtMatmulAlgoGetHeuristic"))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (handle == nullptr || wanted < 1 || !fits(*desc, *a, *b, *d) || c->rows != d->rows ||
      c->columns != d->columns)
    return CUBLAS_STATUS_INVALID_VALUE;
  // Sums in no fixed order; a bias that is not there, or whose alignment is its own: other
  // addresses would have other algorithms.
  if ((preference->reduction & CUBLASLT_REDUCTION_SCHEME_INPLACE) != 0)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const uint64_t alignment = *std::min_element(preference->alignment, preference->alignment + 4);
  if (desc->epilogue == CUBLASLT_EPILOGUE_BIAS && bias_alignment(*desc) != alignment)
    return CUBLAS_STATUS_INVALID_VALUE;
  // All that is granted, so that it is really there.
  const uint64_t workspace = preference->workspace;
  results[0] = {algorithm_for(*desc, *a, *b, *d, workspace, alignment, bias_alignment(*desc)),
                workspace, CUBLAS_STATUS_SUCCESS};
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  if (handle == nullptr || !fits(*desc, *a_layout, *b_layout, *d_layout) || c != d ||
      c_layout != d_layout)
    return CUBLAS_STATUS_INVALID_VALUE;
  const uint64_t needed = algorithm->data[5];
  const uint64_t alignment = algorithm->data[6];
  const cublasLtMatmulAlgo_t own =
      algorithm_for(*desc, *a_layout, *b_layout, *d_layout, needed, alignment, algorithm->data[7]);
  if (std::memcmp(&own, algorithm, sizeof own) != 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (workspace_bytes < needed || (needed > 0 && !aligned(workspace, kWorkspaceAlignment)))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!aligned(a, alignment) || !aligned(b, alignment) || !aligned(d, alignment) ||
      bias_alignment(*desc) < algorithm->data[7])
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const Product product{{static_cast<const float*>(a), *a_layout, desc->transpose_a == CUBLAS_OP_T},
                        {static_cast<const float*>(b), *b_layout, desc->transpose_b == CUBLAS_OP_T},
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta),
                        desc->epilogue == CUBLASLT_EPILOGUE_BIAS ? desc->bias : nullptr,
                        static_cast<float*>(d),
                        *d_layout};
  const cublasLtMatmulRun run{product, needed > 0 ? workspace : nullptr, needed};
  kerf::tests::launch_on_gpu(stream, run, [run] {
    if (run.bytes > 0) std::memset(run.workspace, 0xff, run.bytes);
    run.product.run();
  });
  // The library has a CUDA runtime of its own, whose errors are its own.
  return cudaGetLastError() == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
