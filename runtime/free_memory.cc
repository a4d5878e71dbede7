#include "runtime/free_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "runtime/error.h"
#include "runtime/format.h"

namespace kerf::runtime {
namespace {

namespace fs = std::filesystem;

// How a version of cgroups tells of memory.
struct CgroupFiles {
  const char* most;
  const char* used;
  const char* cache;  // of memory.stat: of files, and not used lately, which is free in effect
};
constexpr CgroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                                "total_inactive_file"};
constexpr CgroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};

// The number of a file that holds but that. "max", which is none: there is no bound.
std::optional<int64_t> number_in(const fs::path& file) {
  std::ifstream told(file);
  int64_t number = 0;
  if (told >> number) return number;
  return {};
}

// The number behind a name, of a file with one of each in a line.
std::optional<int64_t> number_in(const fs::path& file, std::string_view name) {
  std::ifstream told(file);
  for (std::string word; told >> word;) {
    int64_t number = 0;
    if (word == name && told >> number) return number;
    told.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return {};
}

void bound_by_cgroup(const fs::path& folder, const CgroupFiles& files, HostMemory& memory) {
  const auto most = number_in(folder / files.most);
  const auto used = number_in(folder / files.used);
  if (!most || !used) return;
  const int64_t cache = number_in(folder / "memory.stat", files.cache).value_or(0);
  memory.all = std::min(memory.all, *most);
  memory.free = std::min(memory.free, *most - std::max<int64_t>(*used - cache, 0));
}

// By each that this one is in, up to the hierarchy's first. In a container, whose own is mounted
// as the first, the others are not there.
void bound_by_cgroups(const fs::path& mount, std::string_view own, const CgroupFiles& files,
                      HostMemory& memory) {
  for (fs::path at = fs::path(own).relative_path(); !at.empty(); at = at.parent_path())
    bound_by_cgroup(mount / at, files, memory);
  bound_by_cgroup(mount, files, memory);
}

}  // namespace

HostMemory host_memory(const fs::path& root) {
  constexpr int64_t kMuch = std::numeric_limits<int64_t>::max();
  constexpr int64_t kUnit = 1024;
  const fs::path told = root / "proc" / "meminfo";
  const auto bytes = [&](const char* name) {
    const auto units = number_in(told, name);
    return units ? *units * kUnit : kMuch;
  };
  HostMemory memory{bytes("MemTotal:"), bytes("MemAvailable:")};
  const fs::path mount = root / "sys" / "fs" / "cgroup";
  std::ifstream cgroups(root / "proc" / "self" / "cgroup");
  // "0::/user.slice" of version 2, "4:memory:/user.slice" of version 1.
  for (std::string line; std::getline(cgroups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view kinds = std::string_view(line).substr(first + 1, second - first - 1);
    const std::string_view own = std::string_view(line).substr(second + 1);
    if (kinds.empty()) bound_by_cgroups(mount, own, kVersion2, memory);
    if (kinds == "memory") bound_by_cgroups(mount / "memory", own, kVersion1, memory);
  }
  return memory;
}

int64_t memory_to_leave() { return host_memory().all / 16; }

void RoomInMemory::expect(size_t bytes) {
  constexpr size_t kLookEvery = size_t{16} << 20;
  if (unseen_ > bytes) {
    unseen_ -= bytes;
    return;
  }
  unseen_ = kLookEvery;
  const int64_t free = host_memory().free;
  if (free >= leaves_) return;
  const auto text = [](int64_t amount) { return human_bytes(static_cast<double>(amount)); };
  throw Error(ErrorCode::kUnavailable,
              kerf::format("the memory of the scheduler's host has no room for what its workers "
                           "keep: {} are free, and {} are left to others, so {} are missing at "
                           "least; free some, or have checkpoints on disk more often",
                           text(free), text(leaves_), text(leaves_ - free)));
}

}  // namespace kerf::runtime
