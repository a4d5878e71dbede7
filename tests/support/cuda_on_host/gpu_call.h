// How calls of a played GPU begin: one at a time, none in a function of the host, and with the
// weather that a test asked for.
#pragma once

#include <string>

#include "tests/support/cuda_on_host/gpu_state.h"

namespace kerf::tests {

// Of the thread that calls.
int& current_gpu();
// What a call answers, kept for cudaGetLastError().
cudaError_t answer(cudaError_t error);
bool is_for_good(cudaError_t error);

// Runs `act` under the lock, unless the call is to fail.
template <class Act>
cudaError_t call(const char* name, const Act& act) {
  if (in_host_function()) die(std::string(name) + " within a function of the host");
  GpuState& all = GpuState::of_process();
  const std::lock_guard guard(all.mutex);
  if (const auto failing = all.failing.find(name); failing != all.failing.end()) {
    const cudaError_t error = failing->second;
    all.failing.erase(failing);
    if (is_for_good(error)) all.break_with(error);
    return answer(error);
  }
  if (all.broken() != cudaSuccess) return answer(all.broken());
  const cudaError_t error = act(all);
  return answer(all.broken() != cudaSuccess ? all.broken() : error);
}

// What gives memory back does so even where the GPU is broken.
template <class Act>
cudaError_t give_back(const char* name, const Act& act) {
  if (in_host_function()) die(std::string(name) + " within a function of the host");
  GpuState& all = GpuState::of_process();
  const std::lock_guard guard(all.mutex);
  const cudaError_t error = act(all);
  return answer(all.broken() != cudaSuccess ? all.broken() : error);
}

}  // namespace kerf::tests
