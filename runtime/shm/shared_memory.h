// Shared memory without a name: a sealed memfd of the sender, mapped by the receiver through
// /proc/PID/fd/N, both descriptors closed once it is mapped. Nothing is left behind, however a
// process ends, and no peer can shrink the memory under the other.
//
// Owned by one thread.
#pragma once

#include <memory>
#include <string>

#include "runtime/link/slot_store.h"

namespace kerf::runtime {

// Memory of this process that a peer may map by its offer(). Throws Error{kUnavailable}.
std::unique_ptr<SlotMemory> make_shared_memory(size_t bytes);
// A peer's memory, read-only unless `writable`, checked to be a sealed memfd of at least `bytes`.
// Throws Error{kUnavailable} that names the way out.
std::unique_ptr<SlotMemory> map_shared_memory(size_t bytes, const std::string& offer,
                                              bool writable = false);

}  // namespace kerf::runtime
