#include "ops/cuda/at_first_use/library.h"

#include <dlfcn.h>

#include "runtime/error.h"

namespace kerf::ops::cuda {

Library::Library(const char* name, const char* file, const char* product)
    : name_(name), handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ == nullptr) handle_ = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr)
    throw Error(ErrorCode::kUnavailable,
                format("{} cannot be loaded: {}; install {} or name the folder of its libraries in "
                       "LD_LIBRARY_PATH, or use --device cpu",
                       name, dlerror(), product));
}

void* Library::find(const char* function) const {
  void* found = dlsym(handle_, function);
  if (found == nullptr)
    throw Error(
        ErrorCode::kUnavailable,
        format("{} has no {}: it is not the version that Kerf was built with", name_, function));
  return found;
}

}  // namespace kerf::ops::cuda
