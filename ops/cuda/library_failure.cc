#include "ops/cuda/library_failure.h"

#include "runtime/cuda/cuda_check.h"

namespace kerf::ops::cuda {

void throw_library_failure(const char* call, const std::string& said, const LibraryFailure& failure,
                           const Queue& queue) {
  // The library has a runtime of its own, so that ours has no record of an error, but whoever asks
  // a GPU that failed hears of it.
  const cudaError_t of_gpu = cudaStreamQuery(queue.stream());
  if (of_gpu != cudaErrorNotReady) runtime::check_cuda(of_gpu, call, queue.name());
  runtime::ignore_cuda_error(of_gpu);
  throw Error(failure.code, format("{} failed: {}{}", call, said, failure.way_out), queue.name());
}

}  // namespace kerf::ops::cuda
