#include "runtime/device.h"

#include <charconv>

#include "runtime/error.h"

namespace kerf::runtime {

Buffer::~Buffer() {
  if (data_ != nullptr) device_->release(data_, bytes_);
}

namespace {

constexpr int kCpuIndex = -1;

// N of "cuda:N", or kCpuIndex. Throws Error{kUsage}.
int index_of(const std::string& name) {
  if (name == "cpu") return kCpuIndex;
  const std::string prefix = "cuda:";
  if (name.starts_with(prefix)) {
    int index = -1;
    const char* end = name.data() + name.size();
    const auto [stop, fault] = std::from_chars(name.data() + prefix.size(), end, index);
    if (fault == std::errc() && stop == end && index >= 0) return index;
  }
  throw Error(ErrorCode::kUsage, format("there is no device \"{}\"; this host has {}", name,
                                        fmt::join(device_names(), ", ")));
}

[[noreturn]] void cannot_share(const std::string& device) {
  throw Error(ErrorCode::kUnavailable,
              "it cannot share its memory with other processes; use --transport shm", device);
}

}  // namespace

Buffer Device::allocate_exportable(size_t /*bytes*/) { cannot_share(name()); }
std::string Device::export_memory(const Buffer& /*memory*/) { cannot_share(name()); }
ImportedMemory Device::import_memory(const std::string& /*handle*/, size_t /*bytes*/) {
  cannot_share(name());
}

std::unique_ptr<Device> make_device(const std::string& name) {
  const int index = index_of(name);
  return index == kCpuIndex ? make_cpu_device() : make_cuda_device(index);
}

std::string device_identity(const std::string& name) {
  const int index = index_of(name);
  return index == kCpuIndex ? "" : cuda_identity(index);
}

std::vector<std::string> device_names() {
  std::vector<std::string> names = {"cpu"};
  const int count = cuda_support().devices;
  for (int index = 0; index < count; ++index) names.push_back(format("cuda:{}", index));
  return names;
}

}  // namespace kerf::runtime
