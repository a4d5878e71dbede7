// A GPU that is played by the host: CUDA's runtime as runtime/cuda/ and ops/cuda/ use it, so that
// their very sources are proved where no GPU is.
//
// Two devices with memory of their own, which the host dies of touching (SIGSEGV): only work of a
// stream may, and of its own device's alone. What a kernel is given is looked through: it dies of
// an address of host memory that is not pinned, of another GPU, or of nothing that is allocated.
// Nothing that is enqueued is done before something waits for it or asks; then streams go on in
// turns that a seed decides, as far as events let them. Copies from pageable memory take the bytes
// at the call, copies to it wait, as CUDA says; pinned memory is read and written late, and may
// not be freed before; what is registered is pinned, and must be writable. Memory of whole pages of
// 2 MiB can be opened by other processes, under CUDA's rules. A launch into a stream of another
// device than the current one is refused. Functions of the host that call CUDA die. Memory between
// allocations is guarded: under AddressSanitizer who strays into it dies, else whoever frees what
// was overrun.
//
// A process whose environment has KERF_PLAYED_GPU="1 Conv 20 ecc" loses its GPU 1 to a memory error
// when it has run 20 kernels with "Conv" in their names and comes to the next; with "address", to a
// kernel that went astray. With a file's path behind that, only the first process that comes there
// loses it, which makes the file.
//
// Threads: any, as CUDA's.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <typeinfo>

namespace kerf::tests {

inline constexpr int kGpus = 2;
inline constexpr size_t kGpuMemory = size_t{1} << 26U;  // bytes of each

// A kernel, by the name of its type, and the bytes that it was given.
struct GpuKernel {
  const char* name = nullptr;
  std::span<const std::byte> given;
  std::string text() const;  // the name, readable
};

// Work of a kernel in the stream's order; what it captured is what the kernel was given.
void launch_on_gpu(cudaStream_t stream, const GpuKernel& kernel, std::function<void()> work);

template <class Body>
void launch_on_gpu(cudaStream_t stream, const Body& body, std::function<void()> work) {
  static_assert(std::is_trivially_copyable_v<Body>, "a body is copied to the device as it is");
  Body given = body;
#if defined(__GNUC__) && !defined(__clang__)
  __builtin_clear_padding(&given);  // where old addresses may lie
#endif
  launch_on_gpu(stream,
                GpuKernel{typeid(Body).name(), std::as_bytes(std::span<const Body>(&given, 1))},
                std::move(work));
}

// The turns of streams from now on.
void seed_gpu(uint64_t seed);

// How often these were called and answered well since the process began.
struct GpuCounts {
  int64_t allocations = 0;         // cudaMalloc
  int64_t pinned_allocations = 0;  // cudaMallocHost
  int64_t launches = 0;            // of kernels
  int64_t host_functions = 0;
  int64_t copied_bytes = 0;
  int64_t pageable_copies = 0;  // of what is neither pinned nor a GPU's
};
GpuCounts gpu_counts();

// Bad weather. The next call of that name answers so, once; or for good, where it is an error that
// a GPU does not recover from.
void fail_next(const char* call, cudaError_t error);
// Whether that was said of this call, once: for libraries, which have answers of their own.
bool takes_failure(const char* call);
// From now on every call that waits or enqueues answers so: what a kernel did wrong shows late.
// cudaSuccess ends it.
void break_gpu(cudaError_t error);
// The same from when the kernel whose name has this in it runs, after so many others of it.
void break_gpu_at(const std::string& kernel, int others, cudaError_t error);

}  // namespace kerf::tests
