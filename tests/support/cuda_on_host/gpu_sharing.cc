// What a played GPU shares: memory of the host that is registered with it, and its own with other
// processes.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "tests/support/cuda_on_host/gpu_call.h"

using kerf::tests::call;
using kerf::tests::current_gpu;
using kerf::tests::give_back;
using kerf::tests::GpuState;

namespace {

// What lies in a cudaIpcMemHandle_t.
struct Shared {
  char name[16] = "played memory";
  int process = 0;
  int file = -1;
  int device = -1;
};
static_assert(sizeof(Shared) <= sizeof(cudaIpcMemHandle_t));

// Closed when it goes.
class File {
 public:
  explicit File(const Shared& shared) {
    const std::string path =
        "/proc/" + std::to_string(shared.process) + "/fd/" + std::to_string(shared.file);
    number_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }
  size_t bytes() const {
    struct stat status {};
    return number_ >= 0 && ::fstat(number_, &status) == 0 ? static_cast<size_t>(status.st_size) : 0;
  }

 private:
  int number_ = -1;
};

}  // namespace

// The flags that Kerf gives ask for no more than pinned memory has here anyhow.
cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned) {
  return call("cudaHostRegister", [&](GpuState& all) {
    if (data == nullptr || bytes == 0 || all.memory.holds(data) ||
        !kerf::tests::is_writable(data, bytes))
      return cudaErrorInvalidValue;
    if (all.is_any_pinned(data, bytes)) return cudaErrorHostMemoryAlreadyRegistered;
    const auto* begin = static_cast<const std::byte*>(data);
    all.pinned[begin] = bytes;
    all.registered.insert(begin);
    return cudaSuccess;
  });
}

// Of which CUDA does not say that it waits.
cudaError_t cudaHostUnregister(void* data) {
  return give_back("cudaHostUnregister", [&](GpuState& all) {
    const auto* begin = static_cast<const std::byte*>(data);
    if (!all.registered.contains(begin)) return cudaErrorHostMemoryNotRegistered;
    all.check_unused(data, all.pinned.at(begin), "cudaHostUnregister");
    all.registered.erase(begin);
    all.pinned.erase(begin);
    return cudaSuccess;
  });
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* data) {
  return call("cudaIpcGetMemHandle", [&](GpuState& all) {
    Shared shared;
    shared.process = static_cast<int>(::getpid());
    shared.device = all.memory.device_of(data);
    shared.file = all.memory.share(data);
    if (shared.file < 0) return cudaErrorInvalidValue;
    *handle = {};
    std::memcpy(handle, &shared, sizeof shared);
    return cudaSuccess;
  });
}

// Not by the process that it is of, as CUDA says.
cudaError_t cudaIpcOpenMemHandle(void** data, cudaIpcMemHandle_t handle, unsigned flags) {
  return call("cudaIpcOpenMemHandle", [&](GpuState& all) {
    Shared shared;
    std::memcpy(static_cast<void*>(&shared), &handle, sizeof shared);
    if (flags != cudaIpcMemLazyEnablePeerAccess || std::memcmp(shared.name, Shared{}.name, 14) != 0)
      return cudaErrorInvalidValue;
    if (shared.process == static_cast<int>(::getpid())) return cudaErrorDeviceUninitialized;
    if (shared.device != current_gpu()) return cudaErrorMapBufferObjectFailed;
    const File file(shared);
    *data = all.memory.open_shared(shared.device, file.number(), file.bytes());
    return *data == nullptr ? cudaErrorMapBufferObjectFailed : cudaSuccess;
  });
}

cudaError_t cudaIpcCloseMemHandle(void* data) {
  return give_back("cudaIpcCloseMemHandle", [&](GpuState& all) {
    all.run_all();
    return all.memory.close_shared(data) ? cudaSuccess : cudaErrorInvalidValue;
  });
}
