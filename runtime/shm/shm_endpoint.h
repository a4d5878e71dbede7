// Channels over shared memory between processes of one host: slots are written and read in place,
// ZeroMQ (ipc) carries descriptors and credits only.
#pragma once

#include <memory>
#include <string>

#include "runtime/channel.h"

namespace kerf::runtime {

std::unique_ptr<Endpoint> make_shm_endpoint(const std::string& label);

}  // namespace kerf::runtime
