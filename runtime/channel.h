// Channels: how a tensor gets from one worker to another.
//
//   sender                                     receiver
//   slot = acquire(lane, bytes) ── credit ──┐
//   stream.wait(*slot.writable)             │
//   ... producing kernel writes slot ...    │
//   commit(slot, tag, &stream) ─────────────┼─> view = receive()
//                                           │   stream.wait(*view.ready)
//                                           │   ... consumer reads the view in place ...
//                                           └── release(view, &stream)
//
// A channel carries messages one way between two workers, in order. It is divided into lanes: a
// lane is a ring of `slots` buffers of `slot_bytes`, and a message occupies one slot of its lane
// from acquire to release, or until its sender retires it where that reads it longer. A lane whose
// slots are all taken makes acquire wait: credits, no high-water marks. Slots are allocated when
// the endpoint opens, so their memory is known beforehand. The tag is carried, not interpreted.
// Delivery is exactly once and in order, or the channel fails with an Error.
//
// Neither side waits for a device: what is committed or released says so when the stream comes to
// it, by events that the channel owns and the other side's stream waits for. A null event has
// happened; so has what a null stream would have to come to: for who works on the host alone.
//
// Threads: an Endpoint and its channels belong to one thread, mostly the compute thread, except
// Endpoint::interrupt() and wake(). Views and slots die with their Endpoint. Channels move at all
// times: messages are accepted, and copied where payload travels, ahead of their use; what a device
// comes to is passed on; what a broken connection lost is sent again. A compute thread that waits
// in its endpoint does that itself, a thread of the endpoint's own does it while the compute thread
// computes (link/progress_engine.h). What that one fails by is thrown by the next call. Time in
// which the process stood still (standstill.h) does not count against deadlines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device.h"
#include "runtime/host_address.h"
#include "runtime/time.h"

namespace kerf::runtime {

using Tag = std::array<int32_t, 4>;

struct Lane {
  uint64_t slot_bytes = 0;
  int32_t slots = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(slot_bytes, slots);
  }
  bool operator==(const Lane&) const = default;
};

// [u][v]: lanes of the channel from worker u to worker v; empty where they exchange nothing.
using LaneTable = std::vector<std::vector<std::vector<Lane>>>;

// Writable memory of `bytes` in a lane, aligned to 64. Move-only by convention: commit it once, or
// hand it back with abandon(). Committed memory is read-only.
struct Slot {
  int lane = 0;
  int index = 0;
  size_t bytes = 0;
  std::byte* data = nullptr;
  const Event* writable = nullptr;  // who held it before is done
};

// Read-only memory of a message, aligned to 64, valid until released.
struct View {
  int lane = 0;
  int index = 0;
  size_t bytes = 0;
  Tag tag{};
  const std::byte* data = nullptr;
  const Event* ready = nullptr;  // what was committed has been written
  void* owner = nullptr;         // the transport's own; not for users
};

// What crossed, counted where it happens. `messages` and `bytes` are payload; everything that a
// transport adds (acknowledgements, credits, resends) is counted apart. A sender counts at commit,
// a receiver when receive() hands the message out.
struct ChannelCounters {
  int64_t messages = 0;
  int64_t bytes = 0;
  int64_t control_messages = 0;  // credits, probes and answers that this side sent
  int64_t resent = 0;
  int64_t dropped = 0;  // duplicates, and what breaks the protocol

  ChannelCounters& operator+=(const ChannelCounters& more);
};

class SendChannel {
 public:
  virtual ~SendChannel() = default;
  // Empty when the deadline passed. Throws Error{kInterrupted} after Endpoint::interrupt(), and
  // Error{kInternal} if `bytes` exceeds the lane's slot_bytes.
  [[nodiscard]] virtual std::optional<Slot> acquire(int lane, size_t bytes, Deadline deadline) = 0;
  // What is in `stream` by now writes the slot, and nothing later does.
  virtual void commit(const Slot& slot, const Tag& tag, Stream* stream = nullptr) = 0;
  virtual void abandon(const Slot& slot) = 0;
  // Before the commit of a slot that the sender reads after it: the slot is free again when its
  // receiver has released it and it was retired. Nobody writes to it meanwhile.
  virtual void retain(const Slot& slot) = 0;
  // What still reads the slot here is in the stream that will write to it next.
  virtual void retire(const Slot& slot) = 0;
  virtual ChannelCounters counters() const = 0;
};

class ReceiveChannel {
 public:
  virtual ~ReceiveChannel() = default;
  // The next message in order of commits, over all lanes. Empty when the deadline passed.
  [[nodiscard]] virtual std::optional<View> receive(Deadline deadline) = 0;
  // What is in `stream` by now reads the view, and nothing later does. Any order.
  virtual void release(const View& view, Stream* stream = nullptr) = 0;
  virtual ChannelCounters counters() const = 0;
};

// The user's names: --transport. How messages of two workers cross, both ways.
enum class TransportKind : uint8_t { kInproc, kShm, kIpc, kTcp, kCuda };

std::string_view to_string(TransportKind kind);
// Whether receivers keep what arrives in slots of their own; otherwise they read in the sender's.
bool mirrors_slots(TransportKind kind);
// The one that crosses likewise where both ends have only memory of the host; and those, each once.
TransportKind by_host_memory(TransportKind kind);
std::vector<TransportKind> by_host_memory(std::vector<TransportKind> kinds);
// Throws Error{kUsage} that lists the names.
TransportKind parse_transport(const std::string& name);

// What an endpoint must know to open its channels. Peers are named by small integers (workers).
struct Wiring {
  int32_t self = 0;
  uint32_t epoch = 0;
  uint64_t token = 0;                            // unguessable; a peer without it is a stranger
  std::map<int32_t, std::string> addresses;      // of every peer
  std::map<int32_t, TransportKind> transports;   // to it and from it; none: the endpoint's only one
  std::map<int32_t, std::vector<Lane>> send;     // lanes of the channel to each peer
  std::map<int32_t, std::vector<Lane>> receive;  // lanes of the channel from each peer
  std::vector<int32_t> elsewhere;  // peers of other hosts: payload to and from them is summed
  // Of each pair whose channels are encrypted, which makes sums needless; others are in plain.
  std::map<int32_t, std::string> secrets = {};

  template <class Archive>
  void serialize(Archive& archive) {
    archive(self, epoch, token, addresses, transports, send, receive, elsewhere, secrets);
  }
};

// One worker's side of all its channels.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  // Where peers find this endpoint; where it has several transports, a word for each way there.
  virtual std::string address() const = 0;
  // Opens every channel of the wiring. Returns when all peers are reachable; throws Error{kTimeout}
  // naming the peer otherwise. The time that making our own slots takes is added to the deadline.
  // Once.
  virtual void open(const Wiring& wiring, Deadline deadline) = 0;
  // For who serves many peers: blocks until there may be something new, a message, a slot that came
  // free or wake(), or the deadline passed. What came since the last call ends it at once.
  virtual void wait(Deadline deadline) = 0;
  // Thread-safe: ends the wait under way, or the next.
  virtual void wake() = 0;
  // Valid after open(), for peers in the wiring; owned by the endpoint.
  virtual SendChannel& sender(int peer) = 0;
  virtual ReceiveChannel& receiver(int peer) = 0;
  // Thread-safe: open, wait, acquire, receive and drain throw Error{kInterrupted}, waiting or
  // called later.
  virtual void interrupt() = 0;
  // Blocks until all committed messages were released by their receivers, or the deadline passed
  // (false). Called before an orderly end.
  [[nodiscard]] virtual bool drain(Deadline deadline) = 0;
  // Bytes of slot memory that this endpoint allocated beside its device's.
  virtual size_t slot_bytes() const = 0;
  // Messages that belong to no channel: garbage, strangers, wrong versions, other epochs.
  virtual int64_t dropped() const { return 0; }
  // The sum over all channels, and dropped().
  virtual ChannelCounters counters() const = 0;
};

// Throws Error{kProtocol} unless `address`, which comes from outside, is one that an endpoint of
// these transports may have on `host`, a number; empty, or loopback: on this one. One that is no
// number has no addresses over tcp.
void check_endpoint_address(const std::vector<TransportKind>& kinds, const std::string& address,
                            const std::string& host = {});
// The word of an endpoint's address that leads there over `kind`. Throws Error{kProtocol} where
// there is none.
std::string address_over(TransportKind kind, const std::string& address);

// Where the inproc endpoints of one process meet: whoever starts the worker threads makes one hub
// and hands it to every make_endpoint of the run. Thread-safe.
class InprocHub;
std::shared_ptr<InprocHub> make_inproc_hub();

// An endpoint whose wiring gives each peer one of `kinds`; kInproc is alone. `label` shows up in
// errors ("worker 2"). Streams given to the channels are of `device`. `hub` is needed by kInproc
// and ignored by the others, which bind their address here, so it can be told to peers at once:
// over tcp on `host`, a number; one on loopback reaches no peer beyond it. Throws Error{kProtocol}
// for a kind that is none.
std::unique_ptr<Endpoint> make_endpoint(const std::vector<TransportKind>& kinds,
                                        const std::string& label, std::shared_ptr<Device> device,
                                        const std::shared_ptr<InprocHub>& hub = nullptr,
                                        const std::string& host = kLoopbackHost);
std::unique_ptr<Endpoint> make_endpoint(TransportKind kind, const std::string& label,
                                        std::shared_ptr<Device> device,
                                        const std::shared_ptr<InprocHub>& hub = nullptr,
                                        const std::string& host = kLoopbackHost);

}  // namespace kerf::runtime
