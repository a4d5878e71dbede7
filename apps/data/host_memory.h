// How much memory this host has, before something large is asked of it.
#pragma once

#include <cstddef>

#include "runtime/device.h"

namespace kerf::apps {

// Bytes; 0: it does not say.
inline size_t memory_of_host() { return runtime::make_cpu_device()->memory().capacity; }

}  // namespace kerf::apps
