// Shared memory without a name: a sealed memfd of the sender, which the receiver gets over their
// connection and maps, both descriptors closed once it is mapped. Nothing is left behind, however a
// process ends, no peer can shrink the memory under the other, and neither need see the other's
// processes: containers of a host share memory, too.
//
// Owned by one thread.
#pragma once

#include <memory>

#include "runtime/link/slot_store.h"

namespace kerf::runtime {

// Memory of this process that a peer may map, by the file of its offer(). Throws
// Error{kUnavailable}.
std::unique_ptr<SlotMemory> make_shared_memory(size_t bytes);
// A peer's memory, read-only unless `writable`, its file checked to be a sealed memfd of at least
// `bytes`. Throws Error{kUnavailable} that names the way out, Error{kProtocol} where it is not
// sealed or too small.
std::unique_ptr<SlotMemory> map_shared_memory(size_t bytes, const SlotOffer& offer,
                                              bool writable = false);

}  // namespace kerf::runtime
