// A descriptor of cuDNN's graph interface: attributes are set, it is finalised, and then others are
// given it, or things are asked of it. What an attribute's numbers are follows from their C++ type.
//
// Descriptors that were given to another stay until that is gone. A value that moves; any one
// thread at a time.
#pragma once

#include <cudnn_backend.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/cuda/cudnn_check.h"

namespace kerf::ops::cuda {

class DnnDescriptor {
 public:
  // Throws as check_cudnn() does, as all of these.
  DnnDescriptor(cudnnBackendDescriptorType_t type, const Queue& queue);

  template <class T>
  void set(cudnnBackendAttributeName_t name, std::span<const T> values) {
    set(name, type_of(T{}), static_cast<int64_t>(values.size()), values.data());
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, const T& value) {
    set(name, std::span<const T>(&value, 1));
  }
  void set(cudnnBackendAttributeName_t name, const DnnDescriptor& other);
  void set_addresses(cudnnBackendAttributeName_t name, std::span<void* const> addresses);
  [[nodiscard]] cudnnStatus_t try_finalize() const;
  void finalize() const;

  // At most `most` of them.
  template <class T>
  std::vector<T> get(cudnnBackendAttributeName_t name, int64_t most) const {
    std::vector<T> values(static_cast<size_t>(most));
    const int64_t count = get(name, type_of(T{}), most, values.data());
    values.resize(static_cast<size_t>(count < most ? count : most));
    return values;
  }
  // How many descriptors it has, and the first `most` of them, each of this type.
  int64_t count(cudnnBackendAttributeName_t name) const {
    return get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  }
  std::vector<DnnDescriptor> descriptors(cudnnBackendAttributeName_t name,
                                         cudnnBackendDescriptorType_t type, int64_t most) const;

  cudnnBackendDescriptor_t native() const { return descriptor_.get(); }

 private:
  struct Destroy {
    void operator()(void* descriptor) const { cudnnBackendDestroyDescriptor(descriptor); }
  };

  static cudnnBackendAttributeType_t type_of(int64_t) { return CUDNN_TYPE_INT64; }
  static cudnnBackendAttributeType_t type_of(float) { return CUDNN_TYPE_FLOAT; }
  static cudnnBackendAttributeType_t type_of(cudnnHandle_t) { return CUDNN_TYPE_HANDLE; }
  static cudnnBackendAttributeType_t type_of(cudnnDataType_t) { return CUDNN_TYPE_DATA_TYPE; }
  static cudnnBackendAttributeType_t type_of(cudnnConvolutionMode_t) {
    return CUDNN_TYPE_CONVOLUTION_MODE;
  }
  static cudnnBackendAttributeType_t type_of(cudnnBackendHeurMode_t) {
    return CUDNN_TYPE_HEUR_MODE;
  }
  static cudnnBackendAttributeType_t type_of(cudnnBackendNumericalNote_t) {
    return CUDNN_TYPE_NUMERICAL_NOTE;
  }
  static cudnnBackendAttributeType_t type_of(cudnnBackendBehaviorNote_t) {
    return CUDNN_TYPE_BEHAVIOR_NOTE;
  }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
           const void* values);
  // How many there are.
  int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most,
              void* values) const;

  const Queue* queue_;
  std::unique_ptr<void, Destroy> descriptor_;
};

}  // namespace kerf::ops::cuda
