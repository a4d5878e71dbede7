#include "ops/cuda/dnn_descriptor.h"

#include <algorithm>

namespace kerf::ops::cuda {

DnnDescriptor::DnnDescriptor(cudnnBackendDescriptorType_t type, const Queue& queue)
    : queue_(&queue) {
  cudnnBackendDescriptor_t made = nullptr;
  check_cudnn(cudnnBackendCreateDescriptor(type, &made), "cudnnBackendCreateDescriptor", queue);
  descriptor_.reset(made);
}

void DnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                        int64_t count, const void* values) {
  check_cudnn(cudnnBackendSetAttribute(native(), name, type, count, values),
              "cudnnBackendSetAttribute", *queue_);
}

void DnnDescriptor::set(cudnnBackendAttributeName_t name, const DnnDescriptor& other) {
  const cudnnBackendDescriptor_t native = other.native();
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &native);
}

void DnnDescriptor::set_addresses(cudnnBackendAttributeName_t name,
                                  std::span<void* const> addresses) {
  set(name, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(addresses.size()), addresses.data());
}

cudnnStatus_t DnnDescriptor::try_finalize() const { return cudnnBackendFinalize(native()); }

void DnnDescriptor::finalize() const {
  check_cudnn(try_finalize(), "cudnnBackendFinalize", *queue_);
}

int64_t DnnDescriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                           int64_t most, void* values) const {
  int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(native(), name, type, most, &count, values),
              "cudnnBackendGetAttribute", *queue_);
  return count;
}

std::vector<DnnDescriptor> DnnDescriptor::descriptors(cudnnBackendAttributeName_t name,
                                                      cudnnBackendDescriptorType_t type,
                                                      int64_t most) const {
  std::vector<DnnDescriptor> result;
  std::vector<cudnnBackendDescriptor_t> natives;
  for (int64_t i = 0; i < most; ++i) natives.push_back(result.emplace_back(type, *queue_).native());
  if (most == 0) return result;
  const int64_t filled = get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, natives.data());
  result.erase(result.begin() + std::min(filled, most), result.end());
  return result;
}

}  // namespace kerf::ops::cuda
