// Descriptors of the played cuDNN (cudnn.cc): what they may be given and when, what finalising
// looks at, and what can be asked of them. As strict as documented, and stricter: what a descriptor
// was given must live as long as it.
//
// Made by any thread; all functions want dnn_mutex() held.
#pragma once

#include <cudnn_backend.h>

#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "tests/support/cuda_on_host/dnn_engine.h"

namespace kerf::tests {

struct DnnDescriptor {
  cudnnBackendDescriptorType_t type;
  bool final = false;
  std::map<cudnnBackendAttributeName_t, std::vector<std::byte>> values{};
  std::set<const DnnDescriptor*> needed{};  // what it was given, and what that was
  // What follows from it.
  DnnProblem problem{};
  std::array<int64_t, 3> ids{};        // of x, w and y
  std::array<int64_t, 3> alignment{};  // likewise
  std::vector<int> engines{};          // of a heuristic all, of what is chosen one

  bool has(cudnnBackendAttributeName_t name) const { return values.contains(name); }
  template <class T>
  std::vector<T> all(cudnnBackendAttributeName_t name) const {
    const auto at = values.find(name);
    if (at == values.end()) return {};
    std::vector<T> result(at->second.size() / sizeof(T));
    std::memcpy(result.data(), at->second.data(), at->second.size());
    return result;
  }
  template <class T>
  T one(cudnnBackendAttributeName_t name) const {
    return all<T>(name).at(0);
  }
  const DnnDescriptor& given(cudnnBackendAttributeName_t name) const {
    return *static_cast<const DnnDescriptor*>(one<void*>(name));
  }
  void follow(const DnnDescriptor& from) {
    problem = from.problem;
    ids = from.ids;
    alignment = from.alignment;
    engines = from.engines;
  }
};

std::mutex& dnn_mutex();

// Keeps the words for cudnnGetLastErrorString().
cudnnStatus_t refuse(cudnnStatus_t status, const char* words);
const char* last_refusal();

DnnDescriptor* make_descriptor(cudnnBackendDescriptorType_t type);
// Null where there is none.
DnnDescriptor* live_descriptor(cudnnBackendDescriptor_t descriptor);
// Dies where it is none.
void destroy_descriptor(cudnnBackendDescriptor_t descriptor);
// Dies where something is gone that it was given.
void check_needed(const DnnDescriptor& descriptor);

// As the functions of these names, of one that lives.
cudnnStatus_t set_attribute(DnnDescriptor& descriptor, cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t type, int64_t count, const void* values);
cudnnStatus_t get_attribute(const DnnDescriptor& descriptor, cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t type, int64_t most, int64_t* count,
                            void* values);
cudnnStatus_t finalize(DnnDescriptor& descriptor);

}  // namespace kerf::tests
