// A connection that somebody made to send us packets: finds where they begin and end.
//
//   | header | body | header | body | ...      bodies of kData go straight into their places
//
// After a packet that is unsound nothing tells where the next one begins: that ends the connection.
//
// Owned by a StreamPacketSocket, guarded by its lock, but for the copying.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "runtime/link/packet_socket.h"
#include "runtime/open_file.h"
#include "runtime/sockets/stream_socket.h"

namespace kerf::runtime {

class IncomingConnection {
 public:
  // Whether packets with this header may come this way.
  using Admit = std::function<bool(const PacketHeader&)>;

  explicit IncomingConnection(OpenFile socket)
      : socket_(std::move(socket)), waits_for_enough_(waits_for_enough(socket_)) {}

  int descriptor() const { return socket_.number(); }
  // The next packet that has come whole; empty: there is none yet, this has ended, or what came was
  // not wanted.
  std::optional<Packet> read(const Admit& admit, PayloadPlaces& places, PacketSocket::Lock& lock);
  // Bytes may have come since read() found no more, or the end (`is_ending`).
  void wake(bool is_ending) {
    is_dry_ = false;
    is_ending_ = is_ending_ || is_ending;
  }
  // There may be more to read at once, though the last read() returned none.
  bool has_more() const { return end_ == End::kNone && was_unwanted_; }
  bool has_ended() const { return end_ != End::kNone; }
  // It has ended by a packet that was unsound,
  bool was_unsound() const { return end_ == End::kUnsound; }
  // or in one.
  bool was_cut() const { return end_ == End::kCut; }

 private:
  enum class End { kNone, kClosed, kCut, kUnsound };
  static bool check(Packet& packet, PacketSocket::Lock& lock);
  bool begin_packet(const Admit& admit, PayloadPlaces& places);
  bool read_more(PacketSocket::Lock& lock);
  // Where the bytes that come next are to go.
  struct Room {
    std::array<iovec, 16> parts{};
    size_t count = 0;
    size_t bytes = 0;
    void add(void* data, size_t size);
  };
  Room room_ahead();
  void wake_for_enough();
  void take_from_buffer();
  size_t missing() const { return head_->body_bytes - done_; }
  size_t buffered() const { return filled_ - begin_; }

  OpenFile socket_;
  const bool waits_for_enough_;
  End end_ = End::kNone;
  std::optional<PacketHeader> head_;  // of the packet at hand
  std::byte* to_ = nullptr;           // where its body goes; null: nowhere
  size_t done_ = 0;                   // bytes of its body that have come
  std::string body_;                  // of what is no payload
  bool was_unwanted_ = false;         // the last packet
  bool is_dry_ = false;               // the last call of the system took all there was
  bool is_ending_ = false;            // there is an end behind all bytes
  int enough_ = 1;                    // bytes that the system wakes somebody for
  // Read ahead: [begin_, filled_).
  std::array<std::byte, size_t{2} << 10> buffer_;
  size_t begin_ = 0;
  size_t filled_ = 0;
};

}  // namespace kerf::runtime
