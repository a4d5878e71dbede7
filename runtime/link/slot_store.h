// Where the slots of channels lie: the only thing in which the transports over links differ.
//
// Sockets: sender and receiver have memory of their own and the payload travels in chunks. Shared
// memory, of the host or of a GPU: the sender's memory is mapped by the receiver and only
// descriptors travel. Links make memory of the host known to the device (Device::register_host).
//
// Owned and called by the endpoint's thread. Memory outlives the sockets that may still read it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "runtime/device.h"
#include "runtime/open_file.h"

namespace kerf::runtime {

// What a peer needs to reach the slots of a channel, as its hello carries it.
struct SlotOffer {
  std::string text = {};
  std::shared_ptr<const OpenFile> file = {};  // the peer gets it open: it is of the same host
};

// All slots of one channel, on one side.
class SlotMemory {
 public:
  virtual ~SlotMemory() = default;
  virtual std::byte* data() = 0;
  // Whether it is the device's, and no processor's to touch.
  virtual bool on_device() const { return false; }
  // Empty if no peer can reach this memory.
  virtual SlotOffer offer() const { return {}; }
  // The peer reached it: the offer is void from now on.
  virtual void accepted() {}
  // Bytes that were allocated for it; 0 for memory of the peer.
  virtual size_t allocated() const = 0;
};

// Tells the device of slots in the host's memory; to be undone before they go.
inline HostRegistration make_known(SlotMemory& memory, size_t bytes, Device& device) {
  if (memory.on_device()) return {};
  return device.register_host(memory.data(), bytes);
}

class SlotStore {
 public:
  virtual ~SlotStore() = default;
  // Both throw Error{kUnavailable}. `bytes` may be 0.
  virtual std::unique_ptr<SlotMemory> make_outgoing(size_t bytes) = 0;
  // `offer` comes from outside.
  virtual std::unique_ptr<SlotMemory> make_incoming(size_t bytes, const SlotOffer& offer) = 0;
  virtual bool payload_travels() const = 0;
};

}  // namespace kerf::runtime
