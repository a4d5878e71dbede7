#include "runtime/device.h"

#include <charconv>

#include "runtime/error.h"

namespace kerf::runtime {

Buffer::~Buffer() {
  if (data_ != nullptr) device_->release(data_, bytes_);
}

std::unique_ptr<Device> make_device(const std::string& name) {
  if (name == "cpu") return make_cpu_device();
  const std::string prefix = "cuda:";
  if (name.starts_with(prefix)) {
    int index = -1;
    const char* end = name.data() + name.size();
    const auto [stop, fault] = std::from_chars(name.data() + prefix.size(), end, index);
    if (fault == std::errc() && stop == end && index >= 0) return make_cuda_device(index);
  }
  throw Error(ErrorCode::kUsage, format("there is no device \"{}\"; this host has {}", name,
                                        fmt::join(device_names(), ", ")));
}

std::vector<std::string> device_names() {
  std::vector<std::string> names = {"cpu"};
  const int count = cuda_support().devices;
  for (int index = 0; index < count; ++index) names.push_back(format("cuda:{}", index));
  return names;
}

}  // namespace kerf::runtime
