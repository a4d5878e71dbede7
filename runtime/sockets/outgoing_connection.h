// The connection over which a peer gets our packets: made again whenever it breaks.
//
// Packets wait in order until the connection takes them. What a broken one had taken may be lost;
// whoever sends finds that out (kProbe). Nobody answers on it: a word from the other side breaks
// it. Where that happens to one after the other, who is there is no worker, and it is given up.
//
// Where a pair has a secret, each connection begins with an opening (connection_opening.h) and
// packets are encrypted as it takes them, once: what it has taken a part of waits as it is.
//
// Owned by a StreamPacketSocket, guarded by its lock, but for the copying.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/epoll.h"
#include "runtime/link/packet_socket.h"
#include "runtime/open_file.h"
#include "runtime/sockets/connection_opening.h"
#include "runtime/sockets/stream_socket.h"
#include "runtime/time.h"

namespace kerf::runtime {

class OutgoingConnection {
 public:
  // How connections to a peer are encrypted.
  struct Encrypted {
    std::string secret;  // of the pair
    ConnectionOpening opening;
  };
  // Tells `epoll` what to wait for, with this object as whose. Throws Error{kUsage} for what is no
  // address.
  OutgoingConnection(std::string address, const Epoll& epoll,
                     std::optional<Encrypted> encrypted = {})
      : address_(std::move(address)),
        to_(parse_socket_address(address_)),
        epoll_(epoll),
        encrypted_(std::move(encrypted)) {}
  OutgoingConnection(const OutgoingConnection&) = delete;
  OutgoingConnection& operator=(const OutgoingConnection&) = delete;

  const std::string& address() const { return address_; }
  bool is_given_up() const { return state_ == State::kGivenUp; }
  // Why there is no connection, as the last attempt found; 0: it did not fail.
  int error() const { return error_; }

  // A packet behind all others; `head` is sealed, `body` is copied. `file` goes with its first
  // byte: over ipc, and in plain.
  void push(const PacketHeader& head, std::string_view body,
            std::shared_ptr<const OpenFile> file = {});
  // `bytes` at `data` stay as they are until they are sent.
  void push_pinned(const PacketHeader& head, const std::byte* data, size_t bytes);
  bool has_unsent() const { return !packets_.empty(); }
  // Packets that it has taken, whole.
  uint64_t taken() const { return taken_; }
  uint64_t given() const { return taken_ + packets_.size(); }
  // Connections that were broken by a word from the other side.
  int64_t answered() const { return answered_; }
  // Whether write() would do something.
  bool can_write() const { return is_writable_ && has_unsent(); }
  // Gives the connection as much as one call of the system takes. Lets go of the lock, if there is
  // one, while it does.
  void write(PacketSocket::Lock* lock);

  // When a connection is to begin, if there is none.
  std::optional<Clock::time_point> is_to_connect() const;
  // Begins one. Whether it could; otherwise errno says why not.
  bool connect();
  // What the epoll told of it.
  void look(uint32_t events);
  // There is no connection any more; the packet that was under way begins again on the next.
  void broken();

 private:
  enum class State { kNone, kConnecting, kConnected, kGivenUp };
  struct Outgoing {
    PacketHeader head;
    std::string copied;
    const std::byte* body;  // null: copied
    size_t body_bytes;
    bool is_to_sum = false;  // before it is sent
    std::shared_ptr<const OpenFile> file = {};
    void sum();
  };
  void write_plain(PacketSocket::Lock* lock);
  void write_encrypted(PacketSocket::Lock* lock);
  // Packets that are to be encrypted next, whole.
  std::vector<const Outgoing*> next_packets() const;
  void encrypt(const std::vector<const Outgoing*>& packets);
  std::byte* room_for(size_t bytes);
  void encrypt_piece(const void* data, size_t bytes);
  size_t wire_bytes(const Outgoing& packet) const;
  // What the system made of what it was given.
  void told(ssize_t count, int error, size_t given);
  void set_writable(bool is_writable);
  void sent(size_t bytes);
  void hear();

  const std::string address_;
  const SocketAddress to_;
  const Epoll& epoll_;
  OpenFile socket_{-1};
  State state_ = State::kNone;
  int error_ = 0;
  bool is_writable_ = false;
  Clock::time_point began_{};  // the last connection
  std::deque<Outgoing> packets_;
  size_t done_ = 0;  // bytes of the first
  uint64_t taken_ = 0;
  int64_t answered_ = 0;
  int answered_in_a_row_ = 0;
  std::optional<Encrypted> encrypted_;  // empty: they are not
  std::optional<Encryption> encryption_;
  std::vector<std::byte> ready_;  // encrypted, of which these are still to be sent:
  size_t ready_begin_ = 0;
  size_t ready_end_ = 0;
  size_t opening_left_ = 0;  // bytes of them
};

}  // namespace kerf::runtime
