// What this process has in physical memory, as its kernel counts it.
#pragma once

#include <cstdint>

namespace kerf::runtime {

struct ResidentMemory {
  int64_t anonymous = 0;  // bytes of heap, stacks, and whatever else is no file's
  int64_t shared = 0;     // bytes of memory shared with other processes, touched by this one
};

// Of /proc/self/status; zeros where there is none. Any thread; some 20 us.
ResidentMemory resident_memory();

// That of the first call: a worker's process makes it before its channels, so that slots count as
// grown.
const ResidentMemory& resident_memory_at_start();

// From now on large blocks go back to the kernel when they are freed, where the heap would keep
// ever larger ones for what is allocated next: for a process that has such now and then, and not in
// every round, which would take up to a tenth longer. Of the whole process.
void give_large_blocks_back();

// Gives the pages that nothing is on any more back to the kernel, which the heap would keep for
// what is allocated next. Any thread; some milliseconds.
void give_freed_memory_back();

// What a process may have beside tensors and slots: code made at run time, stacks, plans, buffers
// of sockets.
inline constexpr int64_t kProcessAllowance = int64_t{24} << 20;

}  // namespace kerf::runtime
