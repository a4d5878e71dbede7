// Where the slots of channels lie: the only thing in which the transports over links differ.
//
// Sockets: sender and receiver have memory of their own and the payload travels in chunks. Shared
// memory: the sender's memory is mapped by the receiver and only descriptors travel.
//
// Owned and called by the endpoint's thread. Memory outlives the sockets that may still read it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace kerf::runtime {

// All slots of one channel, on one side.
class SlotMemory {
 public:
  virtual ~SlotMemory() = default;
  virtual std::byte* data() = 0;
  // What the peer needs to reach this memory; empty if it cannot.
  virtual std::string offer() const { return {}; }
  // The peer reached it: the offer is void from now on.
  virtual void accepted() {}
  // Bytes that were allocated for it; 0 for memory of the peer.
  virtual size_t allocated() const = 0;
};

class SlotStore {
 public:
  virtual ~SlotStore() = default;
  // Both throw Error{kUnavailable}. `bytes` may be 0.
  virtual std::unique_ptr<SlotMemory> make_outgoing(size_t bytes) = 0;
  // `offer` comes from outside.
  virtual std::unique_ptr<SlotMemory> make_incoming(size_t bytes, const std::string& offer) = 0;
  virtual bool payload_travels() const = 0;
};

}  // namespace kerf::runtime
