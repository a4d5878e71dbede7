#include "runtime/resident_memory.h"

#include <malloc.h>

#include <fstream>
#include <limits>
#include <string>

namespace kerf::runtime {

ResidentMemory resident_memory() {
  ResidentMemory memory;
  std::ifstream status("/proc/self/status");
  constexpr int64_t kUnit = 1024;
  for (std::string name; status >> name;) {
    int64_t count = 0;
    if (name == "RssAnon:" && status >> count) memory.anonymous = count * kUnit;
    if (name == "RssShmem:" && status >> count) memory.shared = count * kUnit;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return memory;
}

void give_large_blocks_back() {
  constexpr int kLarge = 128 << 10;  // where the C library begins, before it raises it
  ::mallopt(M_MMAP_THRESHOLD, kLarge);
  ::mallopt(M_TRIM_THRESHOLD, kLarge);
}

void give_freed_memory_back() { ::malloc_trim(0); }

const ResidentMemory& resident_memory_at_start() {
  static const ResidentMemory kStart = resident_memory();
  return kStart;
}

}  // namespace kerf::runtime
