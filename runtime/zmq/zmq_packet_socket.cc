// A packet socket over ZeroMQ: one ROUTER that every peer sends to, one DEALER to each peer.
#include <array>
#include <map>
#include <zmq.hpp>

#include "runtime/control.h"
#include "runtime/link/packet_identity.h"
#include "runtime/link/packet_socket.h"
#include "runtime/link/packet_wait.h"
#include "runtime/link/with_peer.h"
#include "runtime/zmq/socket.h"

namespace kerf::runtime {
namespace {

// Of one connection: half a GiB in chunks, far more than one wants to receive ahead.
constexpr int kReceiveQueue = 1024;
constexpr int kDropsAtATime = 64;

SocketSettings data_settings(std::string routing_id) {
  SocketSettings settings;
  settings.routing_id = std::move(routing_id);
  settings.max_frame_bytes = kMaxBodyBytes;
  settings.receive_queue = kReceiveQueue;
  return settings;
}

void keep(void*, void*) {}  // pinned memory belongs to its slot

class ZmqPacketSocket final : public PacketSocket {
 public:
  explicit ZmqPacketSocket(const std::string& label);

  const std::string& label() const override { return label_; }
  const std::string& address() const override { return address_; }
  void identify(int32_t self, uint32_t epoch, uint64_t token) override {
    identity_ = {self, epoch, token};
  }
  void expect(int32_t peer) override { identity_.peers.insert(peer); }
  void connect(int32_t peer, const std::string& address) override;
  void send(int32_t peer, PacketHeader head, std::string_view body) override;
  void send_pinned(int32_t peer, PacketHeader head, const std::byte* data, size_t bytes) override;
  std::optional<Packet> receive(PayloadPlaces& places, Lock& lock) override;
  bool drained() const override { return !more_; }
  void send_unsent(Lock&) override {}  // a thread of ZeroMQ's sends it
  bool has_unsent() const override { return false; }
  bool can_send() const override { return false; }
  int descriptor() const override { return router_descriptor_; }
  void wait(Deadline deadline) override {
    if (!more_) wait_.until_readable(router_descriptor_, deadline);
  }
  void interrupt() override { wait_.interrupt(); }
  void check_interrupted() const override { wait_.check(label_); }
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
  PacketIdentity identity_;
  int64_t dropped_ = 0;
  bool more_ = false;                    // receive() stopped before it had read everything
  std::array<zmq::message_t, 2> parts_;  // of the packet that was read last
  PacketWait wait_;
};

ZmqPacketSocket::ZmqPacketSocket(const std::string& label)
    : label_(label),
      context_(make_zmq_context()),
      router_(make_socket(context_, zmq::socket_type::router, data_settings({}))),
      address_(bind_socket(router_, random_local_address())),
      router_descriptor_(router_.get(zmq::sockopt::fd)),
      incarnation_(kerf::format("{:016x}", random_bits())) {}

void ZmqPacketSocket::connect(int32_t peer, const std::string& address) {
  // Unique per incarnation, so that no router takes two connections for one.
  const std::string id =
      kerf::format("kerf.{}.{}.{}.{}", identity_.epoch, identity_.self, incarnation_, peer);
  zmq::socket_t dealer = with_peer(label_, peer, "a connection to", [&] {
    check_local_address(address);  // it came from the peer, by way of the scheduler
    auto made = make_socket(context_, zmq::socket_type::dealer, data_settings(id));
    connect_socket(made, address);
    return made;
  });
  expect(peer);
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
  identity_.sign(head, body);
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
  const auto head = parse_header(parts_[0].to_string_view());
  if (!head || !announces(*head, parts_[1].to_string_view())) return packet;
  packet.head = *head;
  packet.body = parts_[1].to_string_view();
  return packet;
}

// ZeroMQ decides where a received frame lies (never aligned to 64), hence a copy.
std::optional<Packet> ZmqPacketSocket::receive(PayloadPlaces& places, Lock& lock) {
  for (int taken = 0; taken < kDropsAtATime; ++taken) {
    auto packet = read_packet();
    more_ = packet.has_value();
    if (!more_) return std::nullopt;
    if (packet->head.kind == PacketKind{} || !identity_.is_peers(packet->head))
      ++dropped_;
    else if (put_in_place(*packet, places, lock))
      return packet;
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<PacketSocket> make_zmq_packet_socket(const std::string& label) {
  return std::make_unique<ZmqPacketSocket>(label);
}

}  // namespace kerf::runtime
