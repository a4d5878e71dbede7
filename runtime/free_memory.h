// What memory there is for this process: its host's, and what its cgroups, as a container or a
// batch system gives them, let it have of that.
#pragma once

#include <cstddef>
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

// A sixteenth of all: bytes that files kept in memory do not take, since without any the kernel
// ends somebody, who may be the scheduler.
int64_t memory_to_leave();

// Whether there is room for a file in memory that grows. Used by one thread.
class RoomInMemory {
 public:
  explicit RoomInMemory(int64_t leaves = memory_to_leave()) : leaves_(leaves) {}
  // For so many bytes more. Looks now and then. Throws Error{kUnavailable}.
  void expect(size_t bytes);

 private:
  int64_t leaves_;
  size_t unseen_ = 0;  // bytes until the next look
};

}  // namespace kerf::runtime
