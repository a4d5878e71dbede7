#include "runtime/link/packet_socket.h"

#include <cstring>
#include <map>

#include "runtime/epoll.h"
#include "runtime/error.h"
#include "runtime/link/packet_wait.h"

namespace kerf::runtime {
namespace {

// Two that are one: who waits, waits for both.
class JoinedPacketSocket final : public PacketSocket {
 public:
  explicit JoinedPacketSocket(const std::string& label)
      : ipc_(make_zmq_packet_socket(label)),
        tcp_(make_tcp_packet_socket(label)),
        address_(ipc_->address() + ' ' + tcp_->address()) {
    both_.add(ipc_->descriptor(), EPOLLIN);
    both_.add(tcp_->descriptor(), EPOLLIN);
  }

  const std::string& label() const override { return ipc_->label(); }
  const std::string& address() const override { return address_; }
  void identify(int32_t self, uint32_t epoch, uint64_t token) override {
    ipc_->identify(self, epoch, token);
    tcp_->identify(self, epoch, token);
  }
  // Who comes another way than he was told is not a stranger: his hello says what is wrong.
  void expect(int32_t peer) override {
    ipc_->expect(peer);
    tcp_->expect(peer);
  }
  void connect(int32_t peer, const std::string& address) override {
    expect(peer);
    PacketSocket& way = address.starts_with("tcp://") ? *tcp_ : *ipc_;
    way.connect(peer, address);
    ways_[peer] = &way;
  }
  void send(int32_t peer, PacketHeader head, std::string_view body) override {
    way_to(peer).send(peer, head, body);
  }
  void send_pinned(int32_t peer, PacketHeader head, const std::byte* data, size_t bytes) override {
    way_to(peer).send_pinned(peer, head, data, bytes);
  }
  void send_unsent(Lock& lock) override { tcp_->send_unsent(lock); }
  // In turns, so that neither waits for the other's end.
  std::optional<Packet> receive(PayloadPlaces& places, Lock& lock) override {
    for (int i = 0; i < 2; ++i) {
      tcp_is_next_ = !tcp_is_next_;
      PacketSocket& way = tcp_is_next_ ? *tcp_ : *ipc_;
      OneWay its(*this, way, places);
      if (auto packet = way.receive(its, lock)) return packet;
    }
    return std::nullopt;
  }
  bool drained() const override { return ipc_->drained() && tcp_->drained(); }
  bool has_unsent() const override { return tcp_->has_unsent(); }
  bool can_send() const override { return tcp_->can_send(); }
  int descriptor() const override { return both_.descriptor(); }
  void wait(Deadline deadline) override {
    if (drained() && !can_send()) wait_.until_readable(both_.descriptor(), deadline);
  }
  void interrupt() override {
    ipc_->interrupt();
    tcp_->interrupt();
    wait_.interrupt();
  }
  void check_interrupted() const override { wait_.check(label()); }
  int64_t dropped() const override { return ipc_->dropped() + tcp_->dropped(); }
  void drop() override { ipc_->drop(); }

 private:
  // Payload of those who are reached this way: whose other packets came the other way could write
  // into the same slot at the same time.
  class OneWay final : public PayloadPlaces {
   public:
    OneWay(JoinedPacketSocket& joined, const PacketSocket& way, PayloadPlaces& places)
        : joined_(joined), way_(way), places_(places) {}
    std::byte* place(const PacketHeader& head) override {
      const auto found = joined_.ways_.find(head.from);
      if (found != joined_.ways_.end() && found->second == &way_) return places_.place(head);
      joined_.drop();
      return nullptr;
    }

   private:
    JoinedPacketSocket& joined_;
    const PacketSocket& way_;
    PayloadPlaces& places_;
  };
  PacketSocket& way_to(int32_t peer) {
    const auto found = ways_.find(peer);
    KERF_CHECK(found != ways_.end(), "{} is not connected to worker {}", label(), peer);
    return *found->second;
  }

  const std::unique_ptr<PacketSocket> ipc_;
  const std::unique_ptr<PacketSocket> tcp_;
  const std::string address_;
  const Epoll both_;
  std::map<int32_t, PacketSocket*> ways_;
  bool tcp_is_next_ = false;
  PacketWait wait_;
};

}  // namespace

bool put_in_place(Packet& packet, PayloadPlaces& places, PacketSocket::Lock& lock) {
  if (packet.head.kind != PacketKind::kData || packet.body.empty()) return true;
  std::byte* const to = places.place(packet.head);
  if (to == nullptr) return false;
  lock.unlock();
  std::memcpy(to, packet.body.data(), packet.body.size());
  lock.lock();
  packet.body = {reinterpret_cast<const char*>(to), packet.body.size()};
  return true;
}

std::unique_ptr<PacketSocket> make_packet_socket(const std::string& label,
                                                 const std::vector<std::string>& schemes) {
  KERF_CHECK(!schemes.empty(), "{} needs a scheme", label);
  if (schemes.size() > 1) return std::make_unique<JoinedPacketSocket>(label);
  return schemes.front() == "tcp" ? make_tcp_packet_socket(label) : make_zmq_packet_socket(label);
}

}  // namespace kerf::runtime
