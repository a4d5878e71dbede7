#include "runtime/sockets/outgoing_connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/sockets/passed_file.h"

namespace kerf::runtime {
namespace {

// From one connection to the next.
constexpr std::chrono::milliseconds kReconnect{100};
// So many connections in a row on which somebody answers, each before it was so old, are not by
// chance.
constexpr int kMostAnswered = 8;
constexpr std::chrono::seconds kSound{10};
// What one call of the system takes: while it lasts, who wants to drive waits.
constexpr size_t kAtATime = kChunkBytes;

constexpr uint32_t kTellsOfRoom = kTellsOnce | EPOLLOUT;

// Parts of packets, one after the other.
struct Parts {
  std::array<iovec, 16> items{};
  size_t count = 0;
  size_t bytes = 0;

  bool is_full() const { return count + 2 > items.size() || bytes >= kAtATime; }
  // All but the first `skip` bytes of it; the rest of `skip` is returned.
  size_t add(const void* data, size_t size, size_t skip) {
    const size_t skipped = std::min(skip, size);
    if (skipped < size) {
      // sendmsg() only reads, but its interface knows no constant memory.
      auto* const from = static_cast<std::byte*>(const_cast<void*>(data)) + skipped;
      items[count++] = {from, size - skipped};
      bytes += size - skipped;
    }
    return skip - skipped;
  }
};

}  // namespace

void OutgoingConnection::push(const PacketHeader& head, std::string_view body,
                              std::shared_ptr<const OpenFile> file) {
  packets_.push_back({head, std::string(body), nullptr, body.size(), false, std::move(file)});
}

void OutgoingConnection::push_pinned(const PacketHeader& head, const std::byte* data,
                                     size_t bytes) {
  packets_.push_back({head, {}, data, bytes, (head.flags & kSummed) != 0});
}

void OutgoingConnection::Outgoing::sum() {
  seal(head, {reinterpret_cast<const char*>(body), body_bytes});
  is_to_sum = false;
}

std::optional<Clock::time_point> OutgoingConnection::is_to_connect() const {
  if (state_ != State::kNone) return std::nullopt;
  return began_ + kReconnect;
}

bool OutgoingConnection::connect() {
  began_ = Clock::now();
  socket_ = begin_connect(to_);
  if (socket_.number() < 0) {
    error_ = errno;
    return false;
  }
  state_ = State::kConnecting;
  if (epoll_.try_add(socket_.number(), kTellsOfRoom, this)) return true;
  error_ = errno;
  broken();
  errno = error_;
  return false;
}

void OutgoingConnection::look(uint32_t events) {
  if (state_ == State::kConnecting) {
    const bool is_there = is_connected(socket_);
    error_ = is_there ? 0 : errno;
    if (!is_there) return broken();
    state_ = State::kConnected;
  }
  if (state_ == State::kConnected && (events & ~uint32_t{EPOLLOUT}) != 0) hear();
  if (state_ == State::kConnected && (events & EPOLLOUT) != 0) set_writable(true);
}

// Within a host every message that is read makes room: whoever were told of that, and has no use
// for it, would wake for each.
void OutgoingConnection::set_writable(bool is_writable) {
  if (is_writable == is_writable_) return;
  is_writable_ = is_writable;
  epoll_.change(socket_.number(), is_writable ? kTellsOnce : kTellsOfRoom, this);
}

void OutgoingConnection::hear() {
  std::array<std::byte, 64> word;
  const ssize_t count = ::recv(socket_.number(), word.data(), word.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  broken();
  if (count <= 0) return;
  ++answered_;
  answered_in_a_row_ = Clock::now() - began_ < kSound ? answered_in_a_row_ + 1 : 1;
  if (answered_in_a_row_ < kMostAnswered) return;
  state_ = State::kGivenUp;
  packets_.clear();
}

void OutgoingConnection::write(PacketSocket::Lock* lock) {
  if (!can_write()) return;
  encrypted_ ? write_encrypted(lock) : write_plain(lock);
}

void OutgoingConnection::write_plain(PacketSocket::Lock* lock) {
  Parts parts;
  size_t skip = done_;
  std::vector<Outgoing*> to_sum;
  for (Outgoing& packet : packets_) {
    if (parts.is_full()) break;
    // A file goes with the first byte that a call of the system takes.
    if (packet.file && parts.count > 0) break;
    if (packet.is_to_sum) to_sum.push_back(&packet);
    skip = parts.add(&packet.head, sizeof packet.head, skip);
    const void* const body =
        packet.body != nullptr ? static_cast<const void*>(packet.body) : packet.copied.data();
    skip = parts.add(body, packet.body_bytes, skip);
  }
  msghdr message{};
  message.msg_iov = parts.items.data();
  message.msg_iovlen = parts.count;
  PassedFile passed;
  if (packets_.front().file && done_ == 0) passed.send_with(message, *packets_.front().file);
  // What is pushed meanwhile moves none of these packets.
  if (lock != nullptr) lock->unlock();
  for (Outgoing* const packet : to_sum) packet->sum();
  const ssize_t count = ::sendmsg(socket_.number(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  const int error = errno;
  if (lock != nullptr) lock->lock();
  told(count, error, parts.bytes);
}

// Nothing is encrypted before all that was is sent, so that it is of whole packets.
void OutgoingConnection::write_encrypted(PacketSocket::Lock* lock) {
  std::vector<const Outgoing*> packets;
  if (ready_begin_ == ready_end_) packets = next_packets();
  if (lock != nullptr) lock->unlock();
  if (!packets.empty()) encrypt(packets);
  const size_t left = ready_end_ - ready_begin_;
  const ssize_t count =
      ::send(socket_.number(), ready_.data() + ready_begin_, left, MSG_DONTWAIT | MSG_NOSIGNAL);
  const int error = errno;
  if (lock != nullptr) lock->lock();
  if (count > 0) ready_begin_ += static_cast<size_t>(count);
  told(count, error, left);
}

std::vector<const OutgoingConnection::Outgoing*> OutgoingConnection::next_packets() const {
  std::vector<const Outgoing*> packets;
  size_t bytes = 0;
  for (const Outgoing& packet : packets_) {
    bytes += wire_bytes(packet);
    if (!packets.empty() && bytes > kAtATime) break;
    packets.push_back(&packet);
  }
  return packets;
}

void OutgoingConnection::encrypt(const std::vector<const Outgoing*>& packets) {
  ready_begin_ = ready_end_ = 0;
  if (!encryption_) {
    ++encrypted_->opening.number;
    encryption_.emplace(encrypted_->opening.secret(encrypted_->secret));
    opening_left_ = sizeof(ConnectionOpening);
    std::memcpy(room_for(opening_left_), &encrypted_->opening, opening_left_);
  }
  for (const Outgoing* const packet : packets) {
    encrypt_piece(&packet->head, sizeof packet->head);
    if (packet->body_bytes == 0) continue;
    encrypt_piece(
        packet->body != nullptr ? static_cast<const void*>(packet->body) : packet->copied.data(),
        packet->body_bytes);
  }
}

std::byte* OutgoingConnection::room_for(size_t bytes) {
  if (ready_.size() < ready_end_ + bytes) ready_.resize(ready_end_ + bytes);
  ready_end_ += bytes;
  return ready_.data() + ready_end_ - bytes;
}

void OutgoingConnection::encrypt_piece(const void* data, size_t bytes) {
  encryption_->encrypt(static_cast<const std::byte*>(data), bytes, room_for(bytes + kTagBytes));
}

size_t OutgoingConnection::wire_bytes(const Outgoing& packet) const {
  const size_t tags = !encrypted_ ? 0 : packet.body_bytes > 0 ? 2 : 1;
  return sizeof(PacketHeader) + packet.body_bytes + tags * kTagBytes;
}

void OutgoingConnection::told(ssize_t count, int error, size_t given) {
  if (count < 0 && error == EINTR) return;
  if (count < 0 && error != EAGAIN && error != EWOULDBLOCK) return broken();
  set_writable(count >= 0 && static_cast<size_t>(count) == given);
  if (count > 0) sent(static_cast<size_t>(count));
}

void OutgoingConnection::sent(size_t bytes) {
  const size_t of_opening = std::min(bytes, opening_left_);
  opening_left_ -= of_opening;
  done_ += bytes - of_opening;
  while (!packets_.empty()) {
    const size_t size = wire_bytes(packets_.front());
    if (done_ < size) return;
    done_ -= size;
    packets_.pop_front();
    ++taken_;
  }
}

void OutgoingConnection::broken() {
  if (socket_.number() >= 0) epoll_.remove(socket_.number());
  socket_.close();
  state_ = State::kNone;
  is_writable_ = false;
  done_ = 0;
  encryption_.reset();
  ready_begin_ = ready_end_ = opening_left_ = 0;
}

}  // namespace kerf::runtime
