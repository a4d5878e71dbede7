// cuDNN's functions, as far as Kerf calls them, by the library that is loaded when one is first
// called. It loads its other libraries itself.
#include <cudnn_backend.h>

#include "ops/cuda/at_first_use/library.h"

namespace {

// One of the library's, by its declaration.
template <auto kDeclared>
auto found(const char* name) {
  static const kerf::ops::cuda::Library kLibrary(KERF_CUDNN_NAME, KERF_CUDNN_FILE, "cuDNN 9");
  static const auto kFunction = reinterpret_cast<decltype(kDeclared)>(kLibrary.find(name));
  return kFunction;
}

}  // namespace

extern "C" {

const char* cudnnGetErrorString(cudnnStatus_t status) {
  return found<&cudnnGetErrorString>("cudnnGetErrorString")(status);
}

void cudnnGetLastErrorString(char* message, size_t max_size) {
  found<&cudnnGetLastErrorString>("cudnnGetLastErrorString")(message, max_size);
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return found<&cudnnCreate>("cudnnCreate")(handle);
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return found<&cudnnDestroy>("cudnnDestroy")(handle);
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream_id) {
  return found<&cudnnSetStream>("cudnnSetStream")(handle, stream_id);
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t descriptor_type,
                                           cudnnBackendDescriptor_t* descriptor) {
  return found<&cudnnBackendCreateDescriptor>("cudnnBackendCreateDescriptor")(descriptor_type,
                                                                              descriptor);
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return found<&cudnnBackendDestroyDescriptor>("cudnnBackendDestroyDescriptor")(descriptor);
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return found<&cudnnBackendFinalize>("cudnnBackendFinalize")(descriptor);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t attribute_name,
                                       cudnnBackendAttributeType_t attribute_type,
                                       int64_t element_count, const void* array_of_elements) {
  return found<&cudnnBackendSetAttribute>("cudnnBackendSetAttribute")(
      descriptor, attribute_name, attribute_type, element_count, array_of_elements);
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t attribute_name,
                                       cudnnBackendAttributeType_t attribute_type,
                                       int64_t requested_element_count, int64_t* element_count,
                                       void* array_of_elements) {
  return found<&cudnnBackendGetAttribute>("cudnnBackendGetAttribute")(
      descriptor, attribute_name, attribute_type, requested_element_count, element_count,
      array_of_elements);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t execution_plan,
                                  cudnnBackendDescriptor_t variant_pack) {
  return found<&cudnnBackendExecute>("cudnnBackendExecute")(handle, execution_plan, variant_pack);
}

}  // extern "C"
