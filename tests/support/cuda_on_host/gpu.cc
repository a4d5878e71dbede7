#include "tests/support/cuda_on_host/gpu.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cuda_on_host/gpu_call.h"

struct CUstream_st {
  std::shared_ptr<kerf::tests::GpuLine> line;
};

struct CUevent_st {
  int device = 0;
  bool timed = false;
  kerf::tests::GpuMoment moment;
  // When the GPU came to where it was recorded last.
  std::shared_ptr<std::chrono::steady_clock::time_point> time;
};

namespace kerf::tests {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

// The same for what goes into a stream.
template <class Act>
cudaError_t enqueue(const char* name, cudaStream_t stream, const Act& act) {
  return call(name, [&](GpuState& all) {
    if (stream == nullptr || stream->line->device != current_gpu())
      return cudaErrorInvalidResourceHandle;
    return act(all, stream->line);
  });
}

// Who moves bytes: a GPU its own and pinned ones, a copy between GPUs those of both.
GpuItem::By mover(const GpuState& all, const GpuLine& line, const void* to, const void* from) {
  for (const void* each : {to, from})
    if (all.memory.holds(each) && all.memory.device_of(each) != line.device)
      return GpuItem::By::kDevices;
  return GpuItem::By::kDevice;
}

}  // namespace

int& current_gpu() {
  thread_local int current = 0;
  return current;
}

cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

bool is_for_good(cudaError_t error) {
  return error == cudaErrorECCUncorrectable || error == cudaErrorIllegalAddress ||
         error == cudaErrorLaunchFailure;
}

void launch_on_gpu(cudaStream_t stream, const GpuKernel& kernel, std::function<void()> work) {
  enqueue("launch", stream, [&](GpuState& all, const auto& line) {
    GpuItem item{GpuItem::By::kDevice, std::move(work), {}, {}, {kernel.name, {}}};
    item.given = all.addresses_of(kernel, line->device);
    all.push(*line, std::move(item));
    ++all.counts.launches;
    return cudaSuccess;
  });
}

void seed_gpu(uint64_t seed) {
  GpuState& all = GpuState::of_process();
  const std::lock_guard guard(all.mutex);
  all.random.seed(seed);
}

GpuCounts gpu_counts() {
  GpuState& all = GpuState::of_process();
  const std::lock_guard guard(all.mutex);
  return all.counts;
}

void fail_next(const char* name, cudaError_t error) {
  GpuState& all = GpuState::of_process();
  const std::lock_guard guard(all.mutex);
  all.failing[name] = error;
}

bool takes_failure(const char* name) {
  GpuState& all = GpuState::of_process();
  const std::lock_guard guard(all.mutex);
  return all.failing.erase(name) > 0;
}

void break_gpu(cudaError_t error) {
  GpuState& all = GpuState::of_process();
  const std::lock_guard guard(all.mutex);
  all.break_with(error);
}

void break_gpu_at(const std::string& kernel, int others, cudaError_t error) {
  GpuState& all = GpuState::of_process();
  const std::lock_guard guard(all.mutex);
  all.break_at(GpuState::kAnyGpu, kernel, others, error);
}

}  // namespace kerf::tests

using kerf::tests::answer;
using kerf::tests::call;
using kerf::tests::enqueue;
using kerf::tests::give_back;
using kerf::tests::GpuItem;
using kerf::tests::GpuState;
using kerf::tests::mover;

cudaError_t cudaGetLastError() { return std::exchange(kerf::tests::last_error, cudaSuccess); }

cudaError_t cudaMalloc(void** data, size_t bytes) {
  return call("cudaMalloc", [&](GpuState& all) {
    *data = all.memory.allocate(kerf::tests::current_gpu(), bytes);
    ++all.counts.allocations;
    return *data == nullptr && bytes > 0 ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

// Waits for the device; the played one for both.
cudaError_t cudaFree(void* data) {
  return give_back("cudaFree", [&](GpuState& all) {
    all.run_all();
    return data == nullptr || all.memory.free(data) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMallocHost(void** data, size_t bytes) {
  return call("cudaMallocHost", [&](GpuState& all) {
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    if (memory == nullptr) return cudaErrorMemoryAllocation;
    std::memset(memory, 0xff, bytes);
    all.pinned[memory] = bytes;
    ++all.counts.pinned_allocations;
    *data = memory;
    return cudaSuccess;
  });
}

// Of which CUDA does not say that it waits.
cudaError_t cudaFreeHost(void* data) {
  return give_back("cudaFreeHost", [&](GpuState& all) {
    const auto found = all.pinned.find(static_cast<std::byte*>(data));
    if (found == all.pinned.end() || all.registered.contains(found->first))
      return cudaErrorInvalidValue;
    all.check_unused(data, found->second, "cudaFreeHost");
    all.pinned.erase(found);
    std::free(data);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return enqueue("cudaMemcpyAsync", stream, [&](GpuState& all, const auto& line) {
    if (kind == cudaMemcpyHostToDevice && (all.memory.holds(from) || !all.memory.holds(to)))
      return cudaErrorInvalidValue;
    if (!all.is_whole(to, bytes) || !all.is_whole(from, bytes)) return cudaErrorInvalidValue;
    GpuItem item;
    item.by = mover(all, *line, to, from);
    if (all.is_pageable(from)) {
      const auto* begin = static_cast<const std::byte*>(from);
      item.given = {to};
      item.work = [to, taken = std::vector<std::byte>(begin, begin + bytes)] {
        std::memcpy(to, taken.data(), taken.size());
      };
    } else {
      item.given = {to, from};
      item.work = [to, from, bytes] { std::memmove(to, from, bytes); };
    }
    all.push(*line, std::move(item));
    all.counts.copied_bytes += static_cast<int64_t>(bytes);
    if (all.is_pageable(to) || all.is_pageable(from)) ++all.counts.pageable_copies;
    if (all.is_pageable(to)) all.run_all(line);
    return cudaSuccess;
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return enqueue("cudaMemsetAsync", stream, [&](GpuState& all, const auto& line) {
    if (all.is_pageable(to) || !all.is_whole(to, bytes)) return cudaErrorInvalidValue;
    GpuItem item;
    item.by = mover(all, *line, to, to);
    item.given = {to};
    item.work = [to, value, bytes] { std::memset(to, value, bytes); };
    all.push(*line, std::move(item));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call("cudaStreamCreateWithFlags", [&](GpuState& all) {
    if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *stream = new CUstream_st{all.make_line(kerf::tests::current_gpu())};
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return call("cudaStreamGetDevice", [&](GpuState&) {
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *device = stream->line->device;
    return cudaSuccess;
  });
}

// What is under way goes on.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return give_back("cudaStreamDestroy", [&](GpuState&) {
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    delete stream;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return enqueue("cudaStreamSynchronize", stream, [](GpuState& all, const auto& line) {
    all.run_all(line);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return enqueue("cudaStreamQuery", stream, [](GpuState&, const auto& line) {
    return line->queue.empty() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return enqueue("cudaStreamWaitEvent", stream, [&](GpuState& all, const auto& line) {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    GpuItem item;
    item.by = GpuItem::By::kNobody;
    item.after = event->moment;
    all.push(*line, std::move(item));
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* of) {
  return enqueue("cudaLaunchHostFunc", stream, [&](GpuState& all, const auto& line) {
    GpuItem item;
    item.by = GpuItem::By::kHost;
    item.work = [function, of] { function(of); };
    item.given = {of};
    all.push(*line, std::move(item));
    ++all.counts.host_functions;
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call("cudaEventCreateWithFlags", [&](GpuState&) {
    const bool timed = (flags & cudaEventDisableTiming) == 0;
    *event = new CUevent_st{kerf::tests::current_gpu(), timed, {}, {}};
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return give_back("cudaEventDestroy", [&](GpuState&) {
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return enqueue("cudaEventRecord", stream, [&](GpuState& all, const auto& line) {
    if (event->device != line->device) return cudaErrorInvalidResourceHandle;
    if (event->timed) {
      event->time = std::make_shared<std::chrono::steady_clock::time_point>();
      GpuItem item;
      item.by = GpuItem::By::kNobody;
      item.work = [time = event->time] { *time = std::chrono::steady_clock::now(); };
      all.push(*line, std::move(item));
    }
    event->moment = all.now(line);
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  return call("cudaEventElapsedTime", [&](GpuState&) {
    for (const cudaEvent_t each : {begin, end}) {
      if (each == nullptr || !each->timed || each->time == nullptr)
        return cudaErrorInvalidResourceHandle;
      if (!each->moment.happened()) return cudaErrorNotReady;
    }
    *ms = std::chrono::duration<float, std::milli>(*end->time - *begin->time).count();
    return cudaSuccess;
  });
}

// Whoever asks again finds that it has happened, sooner or later.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call("cudaEventQuery", [&](GpuState& all) {
    if (event->moment.happened()) return cudaSuccess;
    if (all.random() % 2 == 0)
      all.run_until(event->moment);
    else
      all.run_one();
    return cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call("cudaEventSynchronize", [&](GpuState& all) {
    all.run_until(event->moment);
    return cudaSuccess;
  });
}
