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
#include <string>

#include "runtime/link/packet_socket.h"
#include "runtime/open_file.h"
#include "runtime/time.h"

namespace kerf::runtime {

class OutgoingConnection {
 public:
  // Connects at the first call of look().
  explicit OutgoingConnection(std::string address) : address_(std::move(address)) {}

  const std::string& address() const { return address_; }
  // Of a connection that is there or begun; negative: none.
  int descriptor() const { return socket_.number(); }
  bool is_given_up() const { return state_ == State::kGivenUp; }

  // A packet behind all others; `head` is sealed, `body` is copied.
  void push(const PacketHeader& head, std::string_view body);
  // `bytes` at `data` stay as they are until they are sent.
  void push_pinned(const PacketHeader& head, const std::byte* data, size_t bytes);
  bool has_unsent() const { return !packets_.empty(); }
  // Whether write() would do something.
  bool can_write() const { return is_writable_ && has_unsent(); }
  // Sends what the connection takes now. Lets go of the lock, if there is one, while it does.
  void write(PacketSocket::Lock* lock);

  // Begins a connection if there is none and it is time; true if it did.
  bool connect();
  // The descriptor became writable, or readable (`heard`).
  void look(bool heard);

 private:
  enum class State { kNone, kConnecting, kConnected, kGivenUp };
  struct Outgoing {
    PacketHeader head;
    std::string copied;
    const std::byte* body;  // null: copied
    size_t body_bytes;
  };
  void sent(size_t bytes);
  void broken();
  void hear();

  const std::string address_;
  OpenFile socket_{-1};
  State state_ = State::kNone;
  bool is_writable_ = false;
  Clock::time_point began_{};  // the last connection
  std::deque<Outgoing> packets_;
  size_t done_ = 0;  // bytes of the first
};

}  // namespace kerf::runtime
