// A packet socket over ZeroMQ: one ROUTER that every peer sends to, one DEALER to each peer.
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <zmq.hpp>

#include "runtime/control.h"
#include "runtime/event_fd.h"
#include "runtime/link/packet_socket.h"
#include "runtime/link/with_peer.h"
#include "runtime/zmq/socket.h"

namespace kerf::runtime {
namespace {

// Of one connection: half a GiB in chunks, far more than one wants to receive ahead.
constexpr int kReceiveQueue = 1024;
constexpr int kDropsAtATime = 64;

std::string listening_address(const std::string& scheme) {
  return scheme == "tcp" ? "tcp://127.0.0.1:*" : random_local_address();
}

std::string bind_all(zmq::socket_t& socket, const std::vector<std::string>& schemes) {
  std::vector<std::string> addresses;
  for (const auto& scheme : schemes)
    addresses.push_back(bind_socket(socket, listening_address(scheme)));
  return kerf::format("{}", fmt::join(addresses, " "));
}

SocketSettings data_settings(std::string routing_id) {
  SocketSettings settings;
  settings.routing_id = std::move(routing_id);
  settings.max_frame_bytes = kMaxBodyBytes;
  settings.receive_queue = kReceiveQueue;
  return settings;
}

void keep(void*, void*) {}  // pinned memory belongs to its slot

// What ppoll() wants: a device is looked at more often than poll()'s milliseconds allow.
timespec time_left(Deadline deadline) {
  constexpr int64_t kSecond = 1'000'000'000;
  constexpr std::chrono::nanoseconds kDay = std::chrono::hours(24);
  const Clock::time_point now = Clock::now();
  if (deadline <= now) return {};
  const int64_t left = std::min(kDay, std::chrono::nanoseconds(deadline - now)).count();
  return {left / kSecond, left % kSecond};
}

class ZmqPacketSocket final : public PacketSocket {
 public:
  ZmqPacketSocket(const std::string& label, const std::vector<std::string>& schemes);

  const std::string& label() const override { return label_; }
  const std::string& address() const override { return address_; }
  void identify(int32_t self, uint32_t epoch, uint64_t token) override;
  void connect(int32_t peer, const std::string& address) override;
  void send(int32_t peer, PacketHeader head, std::string_view body) override;
  void send_pinned(int32_t peer, PacketHeader head, const std::byte* data, size_t bytes) override;
  std::optional<Packet> receive() override;
  bool drained() const override { return !more_; }
  int descriptor() const override { return router_descriptor_; }
  void wait(Deadline deadline) override;
  void interrupt() override;
  void check_interrupted() const override;
  int64_t dropped() const override { return dropped_; }
  void drop() override { ++dropped_; }

 private:
  struct Connection {
    zmq::socket_t dealer;
    std::string address;
  };
  Connection& connection(int32_t peer);
  [[noreturn]] void cannot_send(int32_t peer);
  void send_head(int32_t peer, PacketHeader& head, std::string_view body, bool more);
  void send_frame(int32_t peer, std::string_view bytes, bool more);
  std::optional<Packet> read_packet();

  const std::string label_;
  zmq::context_t context_;
  zmq::socket_t router_;
  std::map<int32_t, Connection> connections_;
  const std::string address_;
  const int router_descriptor_;
  std::string incarnation_;
  int32_t self_ = 0;
  uint32_t epoch_ = 0;
  uint64_t token_ = 0;
  int64_t dropped_ = 0;
  bool more_ = false;                    // receive() stopped before it had read everything
  std::array<zmq::message_t, 2> parts_;  // of the packet that was read last
  std::atomic<bool> interrupted_{false};
  EventFd event_;
};

ZmqPacketSocket::ZmqPacketSocket(const std::string& label, const std::vector<std::string>& schemes)
    : label_(label),
      context_(make_zmq_context()),
      router_(make_socket(context_, zmq::socket_type::router, data_settings({}))),
      address_(bind_all(router_, schemes)),
      router_descriptor_(router_.get(zmq::sockopt::fd)),
      incarnation_(kerf::format("{:016x}", random_bits())) {}

void ZmqPacketSocket::identify(int32_t self, uint32_t epoch, uint64_t token) {
  self_ = self;
  epoch_ = epoch;
  token_ = token;
}

void ZmqPacketSocket::connect(int32_t peer, const std::string& address) {
  // Unique per incarnation, so that no router takes two connections for one.
  const std::string id = kerf::format("kerf.{}.{}.{}.{}", epoch_, self_, incarnation_, peer);
  zmq::socket_t dealer = with_peer(label_, peer, "a connection to", [&] {
    check_local_address(address);  // it came from the peer, by way of the scheduler
    auto made = make_socket(context_, zmq::socket_type::dealer, data_settings(id));
    connect_socket(made, address);
    return made;
  });
  connections_.insert_or_assign(peer, Connection{std::move(dealer), address});
}

ZmqPacketSocket::Connection& ZmqPacketSocket::connection(int32_t peer) {
  const auto found = connections_.find(peer);
  KERF_CHECK(found != connections_.end(), "{} is not connected to worker {}", label_, peer);
  return found->second;
}

// A connection that breaks is made again, and takes what it is given meanwhile. It is given up only
// when the other side breaks ZeroMQ's protocol.
void ZmqPacketSocket::cannot_send(int32_t peer) {
  const std::string& address = connection(peer).address;
  if (zmq_errno() == EAGAIN)
    throw Error(ErrorCode::kUnavailable,
                kerf::format("no connection to worker {}: what listens at {} is no worker; "
                             "start the run again",
                             peer, address),
                label_);
  const Error error = to_error(zmq::error_t(), kerf::format("sending to worker {}", peer));
  throw Error(error.code(), error.message(), label_);
}

void ZmqPacketSocket::send_head(int32_t peer, PacketHeader& head, std::string_view body,
                                bool more) {
  head.epoch = epoch_;
  head.from = self_;
  head.token = token_;
  seal(head, body);
  send_frame(peer, {reinterpret_cast<const char*>(&head), sizeof head}, more);
}

void ZmqPacketSocket::send_frame(int32_t peer, std::string_view bytes, bool more) {
  void* const socket = connection(peer).dealer.handle();
  const int flags = ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0);
  if (uninterrupted([&] { return zmq_send(socket, bytes.data(), bytes.size(), flags); }) < 0)
    cannot_send(peer);
}

void ZmqPacketSocket::send(int32_t peer, PacketHeader head, std::string_view body) {
  send_head(peer, head, body, !body.empty());
  if (!body.empty()) send_frame(peer, body, false);
}

void ZmqPacketSocket::send_pinned(int32_t peer, PacketHeader head, const std::byte* data,
                                  size_t bytes) {
  head.body_bytes = static_cast<uint32_t>(bytes);
  send_head(peer, head, {}, bytes > 0);
  if (bytes == 0) return;
  // ZeroMQ only reads what it sends, but its interface knows no constant memory.
  zmq::message_t payload(const_cast<std::byte*>(data), bytes, keep, nullptr);
  void* const socket = connection(peer).dealer.handle();
  if (uninterrupted([&] { return zmq_msg_send(payload.handle(), socket, ZMQ_DONTWAIT); }) < 0)
    cannot_send(peer);
}

// The next message whatever it is; its head has kind 0 if it is not a sound packet.
std::optional<Packet> ZmqPacketSocket::read_packet() {
  zmq::message_t frame;
  if (!receive_now(router_, frame)) return std::nullopt;  // the routing id, of no interest
  for (auto& part : parts_) part.rebuild();
  size_t count = 0;
  for (bool more = frame.more(); more; ++count) {
    // Frames of one message arrive together.
    KERF_CHECK(receive_now(router_, frame), "a message without an end");
    more = frame.more();
    if (count < parts_.size()) parts_[count] = std::move(frame);
  }
  Packet packet;
  if (count == 0 || count > parts_.size()) return packet;
  const auto head = parse_descriptor(parts_[0].to_string_view(), parts_[1].to_string_view());
  if (!head) return packet;
  packet.head = *head;
  packet.body = parts_[1].to_string_view();
  return packet;
}

std::optional<Packet> ZmqPacketSocket::receive() {
  for (int taken = 0; taken < kDropsAtATime; ++taken) {
    auto packet = read_packet();
    more_ = packet.has_value();
    if (!more_) return std::nullopt;
    const PacketHeader& head = packet->head;
    if (head.kind != PacketKind{} && head.epoch == epoch_ && head.token == token_ &&
        connections_.contains(head.from))
      return packet;
    ++dropped_;
  }
  return std::nullopt;
}

void ZmqPacketSocket::wait(Deadline deadline) {
  if (more_) return;
  std::array<pollfd, 2> items{{{router_descriptor_, POLLIN, 0}, {event_.descriptor(), POLLIN, 0}}};
  const timespec left = time_left(deadline);
  ::ppoll(items.data(), items.size(), &left, nullptr);
}

void ZmqPacketSocket::interrupt() {
  interrupted_ = true;
  event_.signal();  // and never read: every later wait ends at once
}

void ZmqPacketSocket::check_interrupted() const {
  if (interrupted_.load(std::memory_order_relaxed))
    throw Error(ErrorCode::kInterrupted, "interrupted", label_);
}

}  // namespace

std::unique_ptr<PacketSocket> make_packet_socket(const std::string& label,
                                                 const std::vector<std::string>& schemes) {
  return std::make_unique<ZmqPacketSocket>(label, schemes);
}

}  // namespace kerf::runtime
