// Counts what the calling thread allocates, by replacing operator new for the whole executable.
// Link allocation_meter.cc into a test that uses it.
#pragma once

#include <cstddef>

namespace kerf::tests {

// Bytes asked of operator new by this thread since it started; released bytes are not taken off.
// What oneDNN's library itself asks for is left out: whenever a primitive runs, its arguments go
// into a map there.
size_t allocated_bytes();

}  // namespace kerf::tests
