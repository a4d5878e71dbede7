#include "runtime/sockets/incoming_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace kerf::runtime {
namespace {

// A connection tells of every few KiB otherwise, and who wakes for each takes longer.
constexpr size_t kEnough = size_t{64} << 10;

}  // namespace

std::optional<Packet> IncomingConnection::read(const Admit& admit, PayloadPlaces& places,
                                               PacketSocket::Lock& lock) {
  was_unwanted_ = false;
  while (end_ == End::kNone) {
    if (!head_ && buffered() >= sizeof(PacketHeader) && !begin_packet(admit, places)) {
      end_ = End::kUnsound;
      break;
    }
    if (head_) take_from_buffer();
    if (!head_ || missing() > 0) {
      if (!read_more(lock)) break;
      continue;
    }
    was_unwanted_ = to_ == nullptr && done_ > 0;
    Packet packet;
    packet.head = *head_;
    head_.reset();
    // Whoever sends more of that shall not have this thread for himself.
    if (was_unwanted_) break;
    if (done_ > 0) packet.body = {reinterpret_cast<const char*>(to_), done_};
    if (!check(packet, lock)) {
      end_ = End::kUnsound;
      break;
    }
    return packet;
  }
  return std::nullopt;
}

bool IncomingConnection::begin_packet(const Admit& admit, PayloadPlaces& places) {
  const auto* const at = reinterpret_cast<const char*>(buffer_.data() + begin_);
  const auto head = parse_header({at, sizeof(PacketHeader)});
  // Before a stranger may have us do anything for him.
  if (!head || head->body_bytes > kMaxBodyBytes || !admit(*head)) return false;
  begin_ += sizeof(PacketHeader);
  head_ = head;
  done_ = 0;
  to_ = nullptr;
  if (head->body_bytes == 0) return true;
  if (head->kind == PacketKind::kData) {
    to_ = places.place(*head);
  } else {
    body_.resize(head->body_bytes);
    to_ = reinterpret_cast<std::byte*>(body_.data());
  }
  return true;
}

// Whether what follows it may be read. Where a chunk is damaged, its header still tells where the
// next packet begins.
bool IncomingConnection::check(Packet& packet, PacketSocket::Lock& lock) {
  if (packet.head.kind != PacketKind::kData) return announces(packet.head, packet.body);
  lock.unlock();
  packet.is_damaged = !announces(packet.head, packet.body);
  lock.lock();
  return true;
}

void IncomingConnection::take_from_buffer() {
  const size_t count = std::min(buffered(), missing());
  if (to_ != nullptr && count > 0) std::memcpy(to_ + done_, buffer_.data() + begin_, count);
  begin_ += count;
  done_ += count;
}

bool IncomingConnection::read_more(PacketSocket::Lock& lock) {
  if (is_dry_) {
    wake_for_enough();
    return false;
  }
  // Less than a header.
  std::memmove(buffer_.data(), buffer_.data() + begin_, buffered());
  filled_ = buffered();
  begin_ = 0;
  Room room = room_ahead();
  msghdr message{};
  message.msg_iov = room.parts.data();
  message.msg_iovlen = room.count;
  lock.unlock();
  const ssize_t count = ::recvmsg(socket_.number(), &message, MSG_DONTWAIT);
  const int error = errno;
  lock.lock();
  if (count < 0 && error == EINTR) return true;
  if (count < 0 && (error == EAGAIN || error == EWOULDBLOCK)) {
    wake_for_enough();
    return false;
  }
  if (count <= 0) {
    end_ = head_ || buffered() > 0 ? End::kCut : End::kClosed;
    return false;
  }
  const auto came = static_cast<size_t>(count);
  is_dry_ = !is_ending_ && came < room.bytes;
  const size_t into_body = std::min(came, head_ ? missing() : 0);
  done_ += into_body;
  filled_ += came - into_body;
  return true;
}

void IncomingConnection::Room::add(void* data, size_t size) {
  parts[count++] = {data, size};
  bytes += size;
}

// A body and what is behind it take one call of the system. A body that nobody wants is read over
// itself, into the buffer, which is empty then.
IncomingConnection::Room IncomingConnection::room_ahead() {
  Room room;
  const size_t body = head_ ? missing() : 0;
  if (head_ && to_ == nullptr) {
    for (size_t left = body; left > 0 && room.count < room.parts.size();) {
      const size_t size = std::min(left, buffer_.size());
      room.add(buffer_.data(), size);
      left -= size;
    }
    return room;
  }
  if (body > 0) room.add(to_ + done_, body);
  room.add(buffer_.data() + filled_, buffer_.size() - filled_);
  return room;
}

void IncomingConnection::wake_for_enough() {
  if (!waits_for_enough_) return;
  const size_t wanted = head_ ? missing() : sizeof(PacketHeader) - buffered();
  const int enough = static_cast<int>(std::min(wanted, kEnough));
  if (enough == enough_) return;
  if (::setsockopt(socket_.number(), SOL_SOCKET, SO_RCVLOWAT, &enough, sizeof enough) == 0)
    enough_ = enough;
}

}  // namespace kerf::runtime
