// The packet socket of an endpoint: takes packets to peers and brings theirs.
//
// It carries packets (a sealed header and a body) and knows their form, not their meaning. Packets
// of the wrong form, epoch or token are dropped and counted. What carries them is the
// implementation's: sockets/stream_packet_socket.cc.
//
// Threads: every call is made with one lock, except wake(), interrupt() and wait(). receive(),
// wait(), drained() and send_unsent() are of one thread at a time, while others may send. Payload
// given to send_pinned must outlive the PacketSocket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/link/packet_header.h"
#include "runtime/open_file.h"
#include "runtime/time.h"

namespace kerf::runtime {

struct Packet {
  PacketHeader head;
  std::string_view body;    // valid until the next receive(); of kData: where place() said
  bool is_damaged = false;  // a chunk whose checksum is another
  std::shared_ptr<const OpenFile> file = {};  // that came with it; null: none did
};

// Knows where the bodies of kData packets are to lie.
class PayloadPlaces {
 public:
  virtual ~PayloadPlaces() = default;
  // Room for the bytes of the body that follows `head`, of a peer; null: it is not wanted, and its
  // packet is thrown away. With the lock, and nobody else may use that room until the packet is
  // there.
  virtual std::byte* place(const PacketHeader& head) = 0;
};

class PacketSocket {
 public:
  using Lock = std::unique_lock<std::mutex>;

  virtual ~PacketSocket() = default;
  virtual const std::string& label() const = 0;
  virtual const std::string& address() const = 0;

  // From now on packets carry and must carry these.
  virtual void identify(int32_t self, uint32_t epoch, uint64_t token) = 0;
  // Packets of this worker are taken, however they come; others are strangers'.
  virtual void expect(int32_t peer) = 0;
  // And it is reached there. Throws Error{kUsage} that names the peer for what is no address, and
  // for one beyond this host where our own is not. After identify(). `secret`, of this pair and
  // epoch: what crosses either way is encrypted, and nothing of this peer is taken that is not;
  // empty: nothing is.
  virtual void connect(int32_t peer, const std::string& address,
                       const std::string& secret = {}) = 0;

  // Fills in magic, version, epoch, from, token and checksums. Never waits: what a connection
  // cannot take yet is kept, and payload may be until send_unsent(). Throws Error{kUnavailable}
  // that names the peer if its connection was given up. `file` goes with it where the peer is
  // reached over ipc: it gets that open.
  virtual void send(int32_t peer, PacketHeader head, std::string_view body = {},
                    std::shared_ptr<const OpenFile> file = {}) = 0;
  // The same, with `bytes` at `data` as body: not copied, not to be changed before the peer has it;
  // summed, if at all, just before it is sent.
  virtual void send_pinned(int32_t peer, PacketHeader head, const std::byte* data,
                           size_t bytes) = 0;
  // Packets to this peer so far.
  struct Queue {
    uint64_t given = 0;  // to send() and send_pinned()
    uint64_t taken = 0;  // of those, by its connection
  };
  virtual Queue queue(int32_t peer) const = 0;
  // Why this peer cannot be connected to, and the way out, to stand behind what is said of it;
  // empty: it can, for all we know.
  virtual std::string trouble_with(int32_t peer) const = 0;
  // What connections take by now of what they have not taken yet. Lets go of the lock meanwhile.
  virtual void send_unsent(Lock& lock) = 0;
  // The next sound packet, without waiting; also sends some of what connections take by now, and
  // makes connections again that are broken. Lets go of the lock while it copies payload. Returns
  // empty as well after many packets that are unsound or not wanted, so that their sender cannot
  // hold us; wait() then returns at once.
  [[nodiscard]] virtual std::optional<Packet> receive(PayloadPlaces& places, Lock& lock) = 0;

  // Whether the last receive() left nothing unread.
  virtual bool drained() const = 0;
  // Whether something waits for send_unsent(), and whether its connection takes some of it by now.
  virtual bool has_unsent() const = 0;
  virtual bool can_send() const = 0;
  // Readable when receive() may have something to do since it left nothing unread. It may tell of
  // new packets once, not of those still unread.
  virtual int descriptor() const = 0;

  // Blocks until receive() may have something to do, wake(), interrupt(), a signal, or `deadline`.
  // Only after receive() returned empty.
  virtual void wait(Deadline deadline) = 0;
  // Ends the wait under way, or the next. Thread-safe.
  virtual void wake() = 0;
  virtual void interrupt() = 0;
  // Throws Error{kInterrupted} after interrupt().
  virtual void check_interrupted() const = 0;

  virtual int64_t dropped() const = 0;
  virtual void drop() = 0;
};

// Binds an address for each scheme ("ipc", "tcp": on `host`, a number): address() has them in this
// order. Each peer is reached by its address's scheme. Throws Error{kUnavailable} if it cannot.
std::unique_ptr<PacketSocket> make_packet_socket(const std::string& label,
                                                 const std::vector<std::string>& schemes,
                                                 const std::string& host = kLoopbackHost);

}  // namespace kerf::runtime
