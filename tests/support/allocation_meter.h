// Counts what the calling thread allocates, by replacing operator new for the whole executable.
// Link allocation_meter.cc into a test that uses it.
#pragma once

#include <cstddef>

namespace kerf::tests {

// Bytes asked of operator new by this thread since it started; released bytes are not taken off.
size_t allocated_bytes();

}  // namespace kerf::tests
