// An endpoint whose channels are links over one PacketSocket; the SlotStore of a peer makes its
// transport.
//
// open() greets every peer and is greeted by every peer (kHello with token, transport, lanes and
// where the slots are; kWelcome back), so that each side has checked the other before the first
// message.
//
// From then on a data thread moves what there is while the compute thread does not wait here
// (progress_engine.h). Threads: as Endpoint.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/channel.h"
#include "runtime/link/packet_socket.h"
#include "runtime/link/progress_engine.h"
#include "runtime/link/receive_link.h"
#include "runtime/link/send_link.h"
#include "runtime/link/slot_store.h"
#include "runtime/transports.h"

namespace kerf::runtime {

class LinkEndpoint final : public Endpoint, private ProgressEngine::Traffic {
 public:
  LinkEndpoint(std::unique_ptr<PacketSocket> socket, std::shared_ptr<Device> device,
               SlotStores stores);

  std::string address() const override { return socket_->address(); }
  void open(const Wiring& wiring, Deadline deadline) override;
  void wait(Deadline deadline) override;
  void wake() override;
  SendChannel& sender(int peer) override;
  ReceiveChannel& receiver(int peer) override;
  void interrupt() override { socket_->interrupt(); }
  bool drain(Deadline deadline) override;
  size_t slot_bytes() const override;
  int64_t dropped() const override;
  ChannelCounters counters() const override;

 private:
  struct Peer {
    TransportKind transport{};
    std::unique_ptr<SendLink> send;        // null: no channel to it
    std::unique_ptr<ReceiveLink> receive;  // null: no channel from it
    bool greeted = false;                  // its hello came and was right
    bool welcomed = false;                 // it understood ours
  };
  TransportKind transport_to(const Wiring& wiring, int peer) const;
  std::string secret_of(const Wiring& wiring, int peer) const;
  void add_peer(const Wiring& wiring, int peer);
  // That the peer's hello says of the channels what the wiring says here. Throws Error{kProtocol}.
  void check(const Hello& hello, int from, const Peer& peer) const;
  // Until every peer has greeted us and been greeted. Throws Error{kTimeout}.
  void greet_all(Deadline deadline);
  void greet(int peer);
  std::byte* place(const PacketHeader& head) override;
  void handle(const Packet& packet) override;
  void on_hello(int from, Peer& peer, const Packet& packet);
  // Messages that are written, slots that are read.
  bool pass_on() override;
  void probe(Clock::time_point before) override;

  const std::shared_ptr<Device> device_;
  const SlotStores stores_;
  // Slots lie here and outlive socket_, which may send from them until it has ended.
  std::map<int, Peer> peers_;  // as open() made it; what it holds is guarded by the engine's lock
  std::unique_ptr<PacketSocket> socket_;
  bool news_ = false;  // a packet of a peer was handled since wait(); guarded by the engine's lock
  std::atomic<bool> woken_{false};
  // Since open(), by one thread until then. The last: its thread uses all the others.
  std::optional<ProgressEngine> engine_;
};

}  // namespace kerf::runtime
