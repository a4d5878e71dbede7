// cuDNN's graph interface for played GPUs: descriptors (dnn_descriptor.h), and plans of one
// convolution that its engines compute (dnn_engine.h).
#include <cudnn_backend.h>

#include <algorithm>
#include <cstring>

#include "tests/support/cuda_on_host/dnn_descriptor.h"
#include "tests/support/cuda_on_host/dnn_engine.h"
#include "tests/support/cuda_on_host/gpu_state.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

// What a launch is given.
// NOLINTNEXTLINE(readability-identifier-naming): a kernel of the library's, by its name
struct cudnnConvolutionRun {
  kerf::tests::DnnProblem problem;
  int engine;
  void* workspace;
  int64_t bytes;
};

namespace kerf::tests {
namespace {

cudnnStatus_t check_tensor(const DnnTensor& tensor, int64_t alignment) {
  if (tensor.data == nullptr)
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a tensor has no address");
  if (reinterpret_cast<uintptr_t>(tensor.data) % static_cast<uintptr_t>(alignment) != 0)
    return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a tensor is not aligned");
  GpuState& all = GpuState::of_process();
  const std::lock_guard guard(all.mutex);
  const auto bytes = static_cast<size_t>(tensor.bytes());
  if (!(all.memory.holds(tensor.data) ? all.memory.is_allocated(tensor.data, bytes)
                                      : all.is_pinned(tensor.data, bytes)))
    die("cuDNN was given a tensor that is not all in memory that the GPU reads");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_workspace(const cudnnConvolutionRun& run) {
  if (run.bytes == 0) return CUDNN_STATUS_SUCCESS;
  if (run.workspace == nullptr || reinterpret_cast<uintptr_t>(run.workspace) % 256 != 0)
    return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "the workspace is not aligned");
  GpuState& all = GpuState::of_process();
  const std::lock_guard guard(all.mutex);
  if (!all.memory.is_allocated(run.workspace, static_cast<size_t>(run.bytes)))
    die("cuDNN was given a workspace that is not all in memory of the GPU");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t bind(const DnnDescriptor& plan, const DnnDescriptor& pack, cudnnConvolutionRun& run) {
  const auto ids = pack.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto data = pack.all<float*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  const std::array<DnnTensor*, 3> tensors{&run.problem.x, &run.problem.w, &run.problem.y};
  for (size_t i = 0; i < 3; ++i) {
    const auto at = std::find(ids.begin(), ids.end(), plan.ids[i]);
    if (at == ids.end()) return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor of the plan is missing");
    tensors[i]->data = data[static_cast<size_t>(at - ids.begin())];
    const cudnnStatus_t status = check_tensor(*tensors[i], plan.alignment[i]);
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  if (run.bytes > 0 && pack.has(CUDNN_ATTR_VARIANT_PACK_WORKSPACE))
    run.workspace = pack.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  return check_workspace(run);
}

// Plan and variant pack, looked through for a launch.
cudnnStatus_t prepare(cudnnHandle_t handle, cudnnBackendDescriptor_t execution_plan,
                      cudnnBackendDescriptor_t variant_pack, cudnnConvolutionRun& run) {
  const std::lock_guard guard(dnn_mutex());
  const DnnDescriptor* plan = live_descriptor(execution_plan);
  const DnnDescriptor* pack = live_descriptor(variant_pack);
  if (plan == nullptr || plan->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || pack == nullptr ||
      pack->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
    return refuse(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "no plan, or no variant pack");
  if (!plan->final || !pack->final)
    return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "plan or variant pack not finalised");
  check_needed(*plan);
  if (plan->one<void*>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE) != handle || handle->stream == nullptr)
    return refuse(CUDNN_STATUS_BAD_PARAM, "a plan of another handle, or one without a stream");
  const int engine = plan->engines.at(0);
  run = {plan->problem, engine, nullptr, dnn_workspace_bytes(engine, plan->problem)};
  return bind(*plan, *pack, run);
}

}  // namespace
}  // namespace kerf::tests

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED:
      return "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED";
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
      return "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
    case CUDNN_STATUS_EXECUTION_FAILED:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return "CUDNN_STATUS_BAD_PARAM";
  }
}

void cudnnGetLastErrorString(char* message, size_t max_size) {
  if (max_size == 0) return;
  std::strncpy(message, kerf::tests::last_refusal(), max_size - 1);
  message[max_size - 1] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (kerf::tests::takes_failure("cudnnCreate"))
    return kerf::tests::refuse(CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED,
                               "libcudnn_graph.so.9 is missing");
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr)
    return kerf::tests::refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no handle");
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  const std::lock_guard guard(kerf::tests::dnn_mutex());
  *descriptor = kerf::tests::make_descriptor(type);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  const std::lock_guard guard(kerf::tests::dnn_mutex());
  kerf::tests::destroy_descriptor(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  const std::lock_guard guard(kerf::tests::dnn_mutex());
  kerf::tests::DnnDescriptor* found = kerf::tests::live_descriptor(descriptor);
  if (found == nullptr)
    return kerf::tests::refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
  return kerf::tests::finalize(*found);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  const std::lock_guard guard(kerf::tests::dnn_mutex());
  kerf::tests::DnnDescriptor* found = kerf::tests::live_descriptor(descriptor);
  if (found == nullptr || values == nullptr)
    return kerf::tests::refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor, or no values");
  return kerf::tests::set_attribute(*found, name, type, count, values);
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most,
                                       int64_t* count, void* values) {
  const std::lock_guard guard(kerf::tests::dnn_mutex());
  const kerf::tests::DnnDescriptor* found = kerf::tests::live_descriptor(descriptor);
  if (found == nullptr || count == nullptr || (most > 0 && values == nullptr))
    return kerf::tests::refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                               "no descriptor, or no place for values");
  return kerf::tests::get_attribute(*found, name, type, most, count, values);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t execution_plan,
                                  cudnnBackendDescriptor_t variant_pack) {
  cudnnConvolutionRun run{};
  const cudnnStatus_t status = kerf::tests::prepare(handle, execution_plan, variant_pack, run);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  kerf::tests::launch_on_gpu(handle->stream, run, [run] {
    if (run.bytes > 0) std::memset(run.workspace, 0xff, static_cast<size_t>(run.bytes));
    kerf::tests::dnn_compute(run.engine, run.problem);
  });
  // The library has a CUDA runtime of its own, whose errors are its own.
  if (cudaGetLastError() != cudaSuccess)
    return kerf::tests::refuse(CUDNN_STATUS_EXECUTION_FAILED, "a launch failed");
  kerf::tests::count_dnn_run(run.engine);
  return CUDNN_STATUS_SUCCESS;
}
