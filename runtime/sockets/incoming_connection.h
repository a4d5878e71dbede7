// A connection that somebody made to send us packets: finds where they begin and end.
//
//   | header | body | header | body | ...      bodies of kData go straight into their places
//
// After a packet that is unsound nothing tells where the next one begins: that ends the connection.
//
// Within a host a file may come with the first byte of a packet that says so (kWithFile). What is
// read together with that byte may begin before it, so files wait in order for their packets. Two
// at once, or more than can wait where each is some packet's, end the connection.
//
// One that is encrypted says so first (connection_opening.h). Each header, and each body, is then a
// piece with a tag behind it; bodies are decrypted where they lie:
//
//   | opening | header | tag | body | tag | header | tag | ...
//
// Owned by a StreamPacketSocket, guarded by its lock, but for the copying.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/link/packet_socket.h"
#include "runtime/open_file.h"
#include "runtime/sockets/connection_opening.h"
#include "runtime/sockets/passed_file.h"
#include "runtime/sockets/stream_socket.h"

namespace kerf::runtime {

class IncomingConnection {
 public:
  struct Admit {
    // The secret of the connection that begins so; empty: it may not.
    std::function<std::optional<std::string>(const ConnectionOpening&)> begin;
    // Whether packets with this header may come this way.
    std::function<bool(const PacketHeader&)> packet;
  };

  explicit IncomingConnection(OpenFile socket)
      : socket_(std::move(socket)), is_local_(is_local(socket_)) {}

  int descriptor() const { return socket_.number(); }
  // What it began with; empty: it is not encrypted.
  const std::optional<ConnectionOpening>& opening() const { return opening_; }
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
  bool check(Packet& packet, PacketSocket::Lock& lock, const std::byte* tag);
  // What has come of a beginning: false if it is unsound.
  bool begin_what_came(const Admit& admit, PayloadPlaces& places);
  bool begin_connection(const Admit& admit);
  std::optional<PacketHeader> next_header();
  bool begin_packet(const Admit& admit, PayloadPlaces& places);
  bool read_more(PacketSocket::Lock& lock);
  // A file that came. False: there are too many.
  bool keep(PassedFile::Came came);
  std::shared_ptr<const OpenFile> take_file();
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
  // The one behind the body at hand; null where there is none.
  const std::byte* take_tag();
  // Bytes without which there is nothing to do but to read.
  size_t lacking() const;
  size_t header_bytes() const { return sizeof(PacketHeader) + (encryption_ ? kTagBytes : 0); }
  size_t tag_bytes() const { return encryption_ && head_->body_bytes > 0 ? kTagBytes : 0; }
  size_t missing() const { return head_->body_bytes - done_; }
  size_t buffered() const { return filled_ - begin_; }

  OpenFile socket_;
  const bool is_local_;
  // That came, for packets that have not yet; null: this process may open no more.
  std::vector<std::shared_ptr<const OpenFile>> files_;
  End end_ = End::kNone;
  bool has_begun_ = false;  // it is known whether it is encrypted
  std::optional<ConnectionOpening> opening_;
  std::optional<Encryption> encryption_;
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
