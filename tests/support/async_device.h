// The device "async-test": a GPU's manners without a GPU. Code that runs on it as on the CPU, over
// many seeds and without reports, orders all its work by streams and events.
//
// Memory is where Buffer::data() says only for the streams: the processor dies of touching it
// (SIGSEGV). Fresh memory holds 0xa5. Streams have a thread each and run late, in any order that
// the events allow. Whatever touches the same bytes unordered is reported (async_world.h), whether
// or not it went wrong. Any stream of the world may use the memory of any of its devices; two
// workers in a process are two devices of one world.
//
// Memory of the host that is registered is as pinned memory: what touches it is looked at.
//
// copy() from memory of the host that is not pinned takes the bytes at the call; copy() to it
// writes them when the stream's turn comes. Work that is reported for what it declares (memory that
// is freed or too small) is not done. What work throws is thrown once: by the next copy(),
// fill_zero(), launch() or synchronize() of its stream, or by a wait() of the host for an event
// behind it, whichever comes first. A stream that is destroyed first does all its work; waiting for
// that is no wait that can be dropped.
//
// A device is owned by its test. Threads: as runtime/device.h says.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "runtime/device.h"
#include "tests/support/async_world.h"

namespace kerf::tests {

struct AsyncDeviceOptions {
  size_t capacity = 0;                 // bytes; 0: the physical memory of the host
  std::function<void()> begin_thread;  // called by each stream's thread as its first
};

std::unique_ptr<runtime::Device> make_async_device(std::shared_ptr<AsyncWorld> world,
                                                   AsyncDeviceOptions options = {});

}  // namespace kerf::tests
