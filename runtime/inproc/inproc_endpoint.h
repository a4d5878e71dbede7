// Channels between threads of one process: queues, a mutex and condition variables per channel, and
// slots in plain memory that both sides see. No ZeroMQ, so that ThreadSanitizer sees everything.
//
// Threads: as Endpoint; the hub from any.
#pragma once

#include <memory>
#include <string>

#include "runtime/channel.h"

namespace kerf::runtime {

std::unique_ptr<Endpoint> make_inproc_endpoint(const std::string& label,
                                               const std::shared_ptr<InprocHub>& hub);

}  // namespace kerf::runtime
