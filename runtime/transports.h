// The makers of endpoints, one per transport: declared here, defined in the transport's folder, so
// that folders know this one and not the other way round. Called by make_endpoint() alone.
//
//   inproc/  threads of one process: a mutex and condition variables, slots that both sides see; no
//            ZeroMQ, so that ThreadSanitizer sees everything
//   shm/     processes of one host: slots written and read in place, descriptors over ipc
//   zmq/     "ipc" (an abstract socket, nothing in the file system) or "tcp" (loopback, any port):
//            payload travels in chunks, sent from its slot without a copy
//
// Each throws Error{kUnavailable} when the system has no more of what it needs.
#pragma once

#include <memory>
#include <string>

#include "runtime/channel.h"

namespace kerf::runtime {

std::unique_ptr<Endpoint> make_inproc_endpoint(const std::string& label,
                                               std::shared_ptr<Device> device,
                                               const std::shared_ptr<InprocHub>& hub);
std::unique_ptr<Endpoint> make_shm_endpoint(const std::string& label,
                                            std::shared_ptr<Device> device);
std::unique_ptr<Endpoint> make_zmq_endpoint(const std::string& label, const std::string& scheme,
                                            std::shared_ptr<Device> device);

}  // namespace kerf::runtime
