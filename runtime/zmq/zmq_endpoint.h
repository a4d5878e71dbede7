// Channels over ZeroMQ: payload travels in chunks, sent from its slot without a copy.
#pragma once

#include <memory>
#include <string>

#include "runtime/channel.h"

namespace kerf::runtime {

// `scheme` is "ipc" (an abstract socket, nothing in the file system) or "tcp" (loopback, any port).
std::unique_ptr<Endpoint> make_zmq_endpoint(const std::string& label, const std::string& scheme);

}  // namespace kerf::runtime
