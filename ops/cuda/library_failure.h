// What is thrown where a call of one of CUDA's libraries fails. Any thread.
#pragma once

#include <string>

#include "ops/cuda/queue.h"
#include "runtime/error.h"

namespace kerf::ops::cuda {

// What a library's status means to who runs Kerf.
struct LibraryFailure {
  ErrorCode code = ErrorCode::kInternal;
  const char* way_out = "";
};

// What CUDA says of the queue where the call worked, as check_cuda() does, where that has failed:
// which error it was, and of what. Else what the library `said`.
[[noreturn]] void throw_library_failure(const char* call, const std::string& said,
                                        const LibraryFailure& failure, const Queue& queue);

}  // namespace kerf::ops::cuda
