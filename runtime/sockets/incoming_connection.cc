#include "runtime/sockets/incoming_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace kerf::runtime {
namespace {

// A connection tells of every few KiB otherwise, and who wakes for each takes longer.
constexpr size_t kEnough = size_t{64} << 10;
// That of the packet at hand, and of one whose first byte was read with the end of that.
constexpr size_t kFilesAtMost = 2;

}  // namespace

std::optional<Packet> IncomingConnection::read(const Admit& admit, PayloadPlaces& places,
                                               PacketSocket::Lock& lock) {
  was_unwanted_ = false;
  while (end_ == End::kNone) {
    if (!begin_what_came(admit, places)) {
      end_ = End::kUnsound;
      break;
    }
    if (head_) take_from_buffer();
    if (lacking() > 0) {
      if (!read_more(lock)) break;
      continue;
    }
    was_unwanted_ = to_ == nullptr && done_ > 0;
    const std::byte* const tag = take_tag();
    if (was_unwanted_ && tag != nullptr) encryption_->skip();
    Packet packet;
    packet.head = *head_;
    head_.reset();
    if ((packet.head.flags & kWithFile) != 0) packet.file = take_file();
    // Whoever sends more of that shall not have this thread for himself.
    if (was_unwanted_) break;
    if (done_ > 0) packet.body = {reinterpret_cast<const char*>(to_), done_};
    if (!check(packet, lock, tag)) {
      end_ = End::kUnsound;
      break;
    }
    return packet;
  }
  return std::nullopt;
}

bool IncomingConnection::begin_what_came(const Admit& admit, PayloadPlaces& places) {
  // An opening is shorter, and more always follows it.
  if (!has_begun_ && buffered() >= sizeof(PacketHeader) && !begin_connection(admit)) return false;
  if (head_ || !has_begun_ || buffered() < header_bytes()) return true;
  return begin_packet(admit, places);
}

bool IncomingConnection::begin_connection(const Admit& admit) {
  has_begun_ = true;
  const auto* const at = reinterpret_cast<const char*>(buffer_.data() + begin_);
  opening_ = parse_opening({at, sizeof(ConnectionOpening)});
  if (!opening_) return true;  // it begins with a packet
  begin_ += sizeof(ConnectionOpening);
  const auto secret = admit.begin(*opening_);
  if (secret) encryption_.emplace(*secret);
  return secret.has_value();
}

std::optional<PacketHeader> IncomingConnection::next_header() {
  std::byte* const at = buffer_.data() + begin_;
  if (encryption_ && !encryption_->decrypt(at, sizeof(PacketHeader), at + sizeof(PacketHeader)))
    return std::nullopt;
  return parse_header({reinterpret_cast<const char*>(at), sizeof(PacketHeader)});
}

bool IncomingConnection::begin_packet(const Admit& admit, PayloadPlaces& places) {
  const auto head = next_header();
  // Before a stranger may have us do anything for him.
  if (!head || head->body_bytes > kMaxBodyBytes || !admit.packet(*head)) return false;
  begin_ += header_bytes();
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
bool IncomingConnection::check(Packet& packet, PacketSocket::Lock& lock, const std::byte* tag) {
  const bool is_payload = packet.head.kind == PacketKind::kData;
  if (!is_payload && tag == nullptr) return announces(packet.head, packet.body);
  lock.unlock();
  const bool is_authentic = tag == nullptr || encryption_->decrypt(to_, done_, tag);
  const bool is_sound = is_authentic && announces(packet.head, packet.body);
  lock.lock();
  packet.is_damaged = !is_sound;
  return is_sound || is_payload;
}

const std::byte* IncomingConnection::take_tag() {
  if (tag_bytes() == 0) return nullptr;
  begin_ += kTagBytes;
  return buffer_.data() + begin_ - kTagBytes;
}

size_t IncomingConnection::lacking() const {
  const size_t wanted = !has_begun_ ? sizeof(PacketHeader)
                        : !head_    ? header_bytes()
                                    : missing() + tag_bytes();
  return wanted > buffered() ? wanted - buffered() : 0;
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
  // Less than a header, or a tag.
  std::memmove(buffer_.data(), buffer_.data() + begin_, buffered());
  filled_ = buffered();
  begin_ = 0;
  Room room = room_ahead();
  msghdr message{};
  message.msg_iov = room.parts.data();
  message.msg_iovlen = room.count;
  PassedFile passed;
  if (is_local_) passed.receive_with(message);
  lock.unlock();
  const ssize_t count = ::recvmsg(socket_.number(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
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
  auto file = PassedFile::came_with(message);
  is_dry_ = !is_ending_ && came < room.bytes && !file.is_any;
  if (!keep(std::move(file))) {
    end_ = End::kUnsound;
    return false;
  }
  const size_t into_body = std::min(came, head_ ? missing() : 0);
  done_ += into_body;
  filled_ += came - into_body;
  return true;
}

bool IncomingConnection::keep(PassedFile::Came came) {
  if (!came.is_any) return true;
  if (came.is_more || files_.size() == kFilesAtMost) return false;
  if (came.file.number() >= 0)
    files_.push_back(std::make_shared<OpenFile>(std::move(came.file)));
  else
    files_.emplace_back();
  return true;
}

std::shared_ptr<const OpenFile> IncomingConnection::take_file() {
  if (files_.empty()) return nullptr;
  auto first = std::move(files_.front());
  files_.erase(files_.begin());
  return first;
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
  if (body > 0 && to_ == nullptr) {
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
  if (is_local_) return;
  const int enough = static_cast<int>(std::min(lacking(), kEnough));
  if (enough == enough_) return;
  if (::setsockopt(socket_.number(), SOL_SOCKET, SO_RCVLOWAT, &enough, sizeof enough) == 0)
    enough_ = enough;
}

}  // namespace kerf::runtime
