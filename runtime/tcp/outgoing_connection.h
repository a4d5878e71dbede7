// The connection over which a peer gets our packets: made again whenever it breaks.
//
// Packets wait in order until the connection takes them. What a broken one had taken may be lost;
// whoever sends finds that out (kProbe). Nobody answers on it: a word from the other side means
// that it is no worker, and gives the connection up.
//
// Owned by a TcpPacketSocket, guarded by its lock, but for the copying.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>

#include "runtime/link/packet_socket.h"
#include "runtime/open_file.h"
#include "runtime/tcp/tcp_socket.h"
#include "runtime/time.h"

namespace kerf::runtime {

class OutgoingConnection {
 public:
  // Throws Error{kUsage} for what is no address.
  explicit OutgoingConnection(std::string address)
      : address_(std::move(address)), to_(parse_tcp_address(address_)) {}

  const std::string& address() const { return address_; }
  bool is_given_up() const { return state_ == State::kGivenUp; }

  // A packet behind all others; `head` is sealed, `body` is copied.
  void push(const PacketHeader& head, std::string_view body);
  // `bytes` at `data` stay as they are until they are sent.
  void push_pinned(const PacketHeader& head, const std::byte* data, size_t bytes);
  bool has_unsent() const { return !packets_.empty(); }
  // Whether write() would do something.
  bool can_write() const { return is_writable_ && has_unsent(); }
  // Gives the connection as much as one call of the system takes. Lets go of the lock, if there is
  // one, while it does.
  void write(PacketSocket::Lock* lock);

  // When a connection is to begin, if there is none.
  std::optional<Clock::time_point> is_to_connect() const;
  // Begins one; its descriptor, or none: errno says why.
  int connect();
  // The descriptor became writable, or readable (`heard`).
  void look(bool heard);
  // There is no connection any more; the packet that was under way begins again on the next.
  void broken();

 private:
  enum class State { kNone, kConnecting, kConnected, kGivenUp };
  struct Outgoing {
    PacketHeader head;
    std::string copied;
    const std::byte* body;  // null: copied
    size_t body_bytes;
  };
  void sent(size_t bytes);
  void hear();

  const std::string address_;
  const TcpAddress to_;
  OpenFile socket_{-1};
  State state_ = State::kNone;
  bool is_writable_ = false;
  Clock::time_point began_{};  // the last connection
  std::deque<Outgoing> packets_;
  size_t done_ = 0;  // bytes of the first
};

}  // namespace kerf::runtime
