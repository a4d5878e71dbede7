// The makers of endpoints and of their slots: declared here, defined in the transport's folder, so
// that folders know this one and not the other way round. Called by make_endpoint() alone.
//
//   inproc/  threads of one process: a mutex and condition variables, slots that both sides see; no
//            sockets
//   link/    processes: packets over plain connections of sockets/, ipc (abstract sockets, nothing
//            in the file system) or tcp (of one host, any port), whichever the transports of its
//            stores need. Where slots lie is for each peer its transport's store to say:
//              own slots     ipc, tcp: payload travels in chunks, sent from its slot without a copy
//              shm slots     of one host: written and read in place
//              device slots  of one GPU: the same in its memory
//
// Each throws Error{kUnavailable} when the system has no more of what it needs.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "runtime/channel.h"

namespace kerf::runtime {

class SlotStore;
using SlotStores = std::map<TransportKind, std::shared_ptr<SlotStore>>;

std::unique_ptr<Endpoint> make_inproc_endpoint(const std::string& label,
                                               std::shared_ptr<Device> device,
                                               const std::shared_ptr<InprocHub>& hub);
std::unique_ptr<Endpoint> make_link_endpoint(const std::string& label,
                                             std::shared_ptr<Device> device, SlotStores stores,
                                             const std::string& host);

std::shared_ptr<SlotStore> make_own_slots();
// Of an endpoint with this device.
std::shared_ptr<SlotStore> make_shm_slots(const std::shared_ptr<Device>& device);
std::shared_ptr<SlotStore> make_device_slots(const std::shared_ptr<Device>& device);

}  // namespace kerf::runtime
