// The packet socket of an endpoint: takes packets to peers and brings theirs.
//
// It carries packets (a sealed header and a body) and knows their form, not their meaning. Packets
// of the wrong form, epoch or token are dropped and counted. What carries them is the
// implementation's: zmq/zmq_packet_socket.cc.
//
// Threads: one at a time, each after the other by a lock or the like, except interrupt(); and
// receive(), wait() and drained() by one of them while another sends, likewise with that lock but
// for the waiting. Payload given to send_pinned must outlive the PacketSocket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/link/packet_header.h"
#include "runtime/time.h"

namespace kerf::runtime {

struct Packet {
  PacketHeader head;
  std::string_view body;  // valid until the next receive()
};

class PacketSocket {
 public:
  virtual ~PacketSocket() = default;
  virtual const std::string& label() const = 0;
  virtual const std::string& address() const = 0;

  // From now on packets carry and must carry these.
  virtual void identify(int32_t self, uint32_t epoch, uint64_t token) = 0;
  // Throws Error{kUsage} that names the peer unless `address` is one of this host.
  virtual void connect(int32_t peer, const std::string& address) = 0;

  // Fills in magic, version, epoch, from, token and checksums. Never waits: what a connection
  // cannot take yet is kept. Throws Error{kUnavailable} that names the peer if its connection was
  // given up.
  virtual void send(int32_t peer, PacketHeader head, std::string_view body = {}) = 0;
  // The same, with `bytes` at `data` as body: not copied, not to be changed before the peer has it.
  virtual void send_pinned(int32_t peer, PacketHeader head, const std::byte* data,
                           size_t bytes) = 0;
  // The next sound packet, without waiting. Returns empty as well after many unsound ones, so that
  // their sender cannot hold us; wait() then returns at once.
  [[nodiscard]] virtual std::optional<Packet> receive() = 0;

  // Whether the last receive() left nothing unread.
  virtual bool drained() const = 0;
  // Readable when packets may have come since receive() left nothing unread. It may tell of new
  // packets once, not of those still unread.
  virtual int descriptor() const = 0;

  // Blocks until a packet may be there, interrupt(), a signal, or `deadline`. Only after receive()
  // returned empty.
  virtual void wait(Deadline deadline) = 0;
  virtual void interrupt() = 0;
  // Throws Error{kInterrupted} after interrupt().
  virtual void check_interrupted() const = 0;

  virtual int64_t dropped() const = 0;
  virtual void drop() = 0;
};

// Binds an address of this host for each scheme ("ipc", "tcp") at once; address() is all of them.
std::unique_ptr<PacketSocket> make_packet_socket(const std::string& label,
                                                 const std::vector<std::string>& schemes);

}  // namespace kerf::runtime
