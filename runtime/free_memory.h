// What memory there is for this process: its host's, and what its cgroups, as a container or a
// batch system gives them, let it have of that.
#pragma once

#include <cstdint>
#include <filesystem>

namespace kerf::runtime {

struct HostMemory {
  int64_t all = 0;   // bytes
  int64_t free = 0;  // bytes that the kernel would give without ending somebody for it
};

// The least of each. Very much where nobody tells. `root`: the folder in which /proc and /sys lie.
// Any thread.
HostMemory host_memory(const std::filesystem::path& root = "/");

}  // namespace kerf::runtime
