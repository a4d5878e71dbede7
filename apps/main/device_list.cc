#include "apps/main/device_list.h"

#include <algorithm>

#include "apps/main/flag_values.h"

namespace kerf::apps {

namespace {

constexpr char kFlag[] = "--device";
constexpr char kCpu[] = "cpu";

std::vector<std::string> names_of(const std::string& text) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

// "cuda", or "cuda:" and a number.
bool is_of_cuda(const std::string& name) {
  const std::string prefix = "cuda";
  if (!name.starts_with(prefix)) return false;
  if (name == prefix) return true;
  const std::string number = name.substr(prefix.size());
  return number.size() > 1 && number[0] == ':' &&
         std::all_of(number.begin() + 1, number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void add_named(const std::string& name, std::vector<std::string>& list) {
  const std::vector<std::string> here = runtime::device_names();
  const bool is_cuda = name == "cuda" || name.starts_with("cuda:");
  if (is_cuda) {
    const runtime::CudaSupport cuda = runtime::cuda_support();
    require(cuda.devices > 0, kFlag,
            format("{} cannot be had: {}; use --device cpu", name, cuda.reason));
  }
  if (name == "cuda") {
    list.insert(list.end(), here.begin() + 1, here.end());  // the CPU is the first
    return;
  }
  require(std::find(here.begin(), here.end(), name) != here.end(), kFlag,
          format("there is no device \"{}\"; this host has {}", name, fmt::join(here, ", ")));
  list.push_back(name);
}

}  // namespace

std::vector<std::string> device_list(const std::string& text) {
  std::vector<std::string> list;
  for (const std::string& name : names_of(text)) add_named(name, list);
  return list;
}

bool names_devices(const std::string& text) {
  return std::ranges::all_of(
      names_of(text), [](const std::string& name) { return is_of_cuda(name) || name == kCpu; });
}

std::vector<runtime::DeviceKind> planned_devices(const std::string& text) {
  std::vector<runtime::DeviceKind> kinds;
  for (const std::string& name : names_of(text)) {
    const bool is_cuda = is_of_cuda(name);
    require(is_cuda || name == kCpu, kFlag, format("there is no device \"{}\"", name));
    require(!is_cuda || runtime::cuda_support().built, kFlag,
            "this build has no kernels for GPUs, so what they take is not known; build with "
            "-DKERF_CUDA=ON");
    kinds.push_back(is_cuda ? runtime::DeviceKind::kCuda : runtime::DeviceKind::kCpu);
  }
  return kinds;
}

}  // namespace kerf::apps
