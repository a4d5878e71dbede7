#include "runtime/link/link_endpoint.h"

#include <algorithm>
#include <set>

#include "runtime/encryption.h"
#include "runtime/error.h"
#include "runtime/link/with_peer.h"
#include "runtime/standstill.h"
#include "runtime/wire.h"

namespace kerf::runtime {
namespace {

// How long before one greets again who has not answered.
constexpr std::chrono::milliseconds kGreetAgain{1'000};

}  // namespace

LinkEndpoint::LinkEndpoint(std::unique_ptr<PacketSocket> socket, std::shared_ptr<Device> device,
                           SlotStores stores)
    : device_(std::move(device)), stores_(std::move(stores)), socket_(std::move(socket)) {
  KERF_CHECK(!stores_.empty(), "{} has no transport", socket_->label());
}

TransportKind LinkEndpoint::transport_to(const Wiring& wiring, int peer) const {
  const auto said = wiring.transports.find(peer);
  if (said == wiring.transports.end()) {
    KERF_CHECK(stores_.size() == 1, "the wiring does not say how worker {} is reached", peer);
    return stores_.begin()->first;
  }
  if (stores_.contains(said->second)) return said->second;
  throw Error(ErrorCode::kProtocol,
              kerf::format("worker {} is to be reached over {}, which this endpoint is not for",
                           peer, to_string(said->second)),
              socket_->label());
}

// Empty: its channels are not encrypted.
std::string LinkEndpoint::secret_of(const Wiring& wiring, int peer) const {
  const auto found = wiring.secrets.find(peer);
  if (found == wiring.secrets.end()) return {};
  if (found->second.size() == kSecretBytes) return found->second;
  throw Error(ErrorCode::kProtocol,
              kerf::format("the secret of the channels to worker {} has {} bytes, not {}", peer,
                           found->second.size(), kSecretBytes),
              socket_->label());
}

void LinkEndpoint::add_peer(const Wiring& wiring, int peer) {
  KERF_CHECK(wiring.addresses.contains(peer), "the wiring has no address of worker {}", peer);
  Peer& made = peers_[peer];
  made.transport = transport_to(wiring, peer);
  SlotStore& store = *stores_.at(made.transport);
  const std::string secret = secret_of(wiring, peer);
  const bool is_summed = secret.empty() && std::ranges::count(wiring.elsewhere, peer) > 0;
  if (wiring.send.contains(peer))
    made.send = std::make_unique<SendLink>(*socket_, peer, wiring.send.at(peer), store, *device_,
                                           *engine_, is_summed);
  if (wiring.receive.contains(peer))
    made.receive = std::make_unique<ReceiveLink>(*socket_, peer, wiring.receive.at(peer), store,
                                                 *device_, *engine_, is_summed);
  const std::string address = with_peer(socket_->label(), peer, "a connection to", [&] {
    return address_over(made.transport, wiring.addresses.at(peer));
  });
  socket_->connect(peer, address, secret);
}

void LinkEndpoint::open(const Wiring& wiring, Deadline deadline) {
  KERF_CHECK(!engine_, "{} was opened before", socket_->label());
  socket_->identify(wiring.self, wiring.epoch, wiring.token);
  std::set<int> peers;
  for (const auto& [peer, lanes] : wiring.send) peers.insert(peer);
  for (const auto& [peer, lanes] : wiring.receive) peers.insert(peer);
  const bool copies = std::ranges::any_of(
      peers, [&](int peer) { return stores_.at(transport_to(wiring, peer))->payload_travels(); });
  engine_.emplace(*socket_, static_cast<ProgressEngine::Traffic&>(*this), copies);
  const auto begin = Clock::now();
  for (const int peer : peers) add_peer(wiring, peer);
  // Large slots take long to make; the others shall not have less time because of ours.
  if (deadline != Deadline::max()) deadline += Clock::now() - begin;
  greet_all(deadline);
  engine_->start();
}

void LinkEndpoint::greet_all(Deadline deadline) {
  const auto ready = [](const auto& entry) {
    return entry.second.greeted && entry.second.welcomed;
  };
  const auto all_ready = [&] { return std::ranges::all_of(peers_, ready); };
  auto lock = engine_->lock();
  Standstill still(kGreetAgain);
  while (!all_ready()) {
    for (const auto& [number, peer] : peers_)
      if (!peer.welcomed) greet(number);
    if (engine_->serve(lock, all_ready, std::min(deadline, after(kGreetAgain)))) return;
    deadline = postponed(deadline, still.look());
    if (Clock::now() < deadline) continue;
    const auto missing = std::ranges::find_if_not(peers_, ready);
    throw Error(ErrorCode::kTimeout,
                kerf::format("worker {} did not open its channels in time{}", missing->first,
                             socket_->trouble_with(missing->first)),
                socket_->label());
  }
}

void LinkEndpoint::greet(int number) {
  const Peer& peer = peers_.at(number);
  Hello hello;
  SlotOffer offer;
  hello.transport = peer.transport;
  if (peer.send) {
    hello.send = peer.send->lanes();
    offer = peer.send->memory().offer();
    hello.offer = offer.text;
  }
  if (peer.receive) hello.receive = peer.receive->lanes();
  PacketHeader head;
  head.kind = PacketKind::kHello;
  socket_->send(number, head, encode(hello), offer.file);
}

void LinkEndpoint::check(const Hello& hello, int from, const Peer& peer) const {
  if (hello.transport != peer.transport)
    throw Error(
        ErrorCode::kProtocol,
        kerf::format("worker {} opens its channels over {} where {} was told {}", from,
                     to_string(hello.transport), socket_->label(), to_string(peer.transport)),
        socket_->label());
  const std::vector<Lane> none;
  if (hello.send != (peer.receive ? peer.receive->lanes() : none) ||
      hello.receive != (peer.send ? peer.send->lanes() : none))
    throw Error(ErrorCode::kProtocol,
                kerf::format("worker {} expects other lanes than the plan says", from),
                socket_->label());
}

void LinkEndpoint::on_hello(int from, Peer& peer, const Packet& packet) {
  if (!peer.greeted) {
    const auto hello = with_peer(socket_->label(), from, "the greeting of",
                                 [&] { return decode<Hello>(packet.body); });
    check(hello, from, peer);
    if (peer.receive) peer.receive->accept({hello.offer, packet.file});
    peer.greeted = true;
  }
  PacketHeader head;
  head.kind = PacketKind::kWelcome;
  socket_->send(from, head);
}

std::byte* LinkEndpoint::place(const PacketHeader& head) {
  const Peer& peer = peers_.at(head.from);
  if (peer.receive) return peer.receive->place(head);
  socket_->drop();
  return nullptr;
}

void LinkEndpoint::handle(const Packet& packet) {
  news_ = true;
  const int from = packet.head.from;
  Peer& peer = peers_.at(from);
  switch (packet.head.kind) {
    case PacketKind::kHello:
      return on_hello(from, peer, packet);
    case PacketKind::kWelcome:
      if (peer.send && !peer.welcomed) peer.send->memory().accepted();
      peer.welcomed = true;
      return;
    case PacketKind::kData:
      if (peer.receive) return peer.receive->on_data(packet);
      break;
    case PacketKind::kProbe:
      if (peer.receive) return peer.receive->on_probe(packet);
      break;
    case PacketKind::kCredit:
      if (peer.send) return peer.send->on_credit(packet);
      break;
    case PacketKind::kState:
      if (peer.send) return peer.send->on_state(packet);
      break;
  }
  socket_->drop();
}

bool LinkEndpoint::pass_on() {
  bool all = true;
  for (const auto& [number, peer] : peers_) {
    if (peer.send) {
      peer.send->send_written();
      all = all && !peer.send->has_unwritten();
    }
    if (peer.receive) {
      peer.receive->return_read();
      all = all && !peer.receive->has_unread();
    }
  }
  return all;
}

void LinkEndpoint::probe(Clock::time_point before) {
  for (const auto& [number, peer] : peers_)
    if (peer.send) peer.send->probe(before);
}

void LinkEndpoint::wait(Deadline deadline) {
  KERF_CHECK(engine_, "{} waits before it was opened", socket_->label());
  auto lock = engine_->enter();
  engine_->serve(
      lock, [this] { return news_ || woken_; }, deadline);
  news_ = woken_ = false;
}

void LinkEndpoint::wake() {
  woken_ = true;
  socket_->wake();
}

SendChannel& LinkEndpoint::sender(int peer) {
  const auto found = peers_.find(peer);
  KERF_CHECK(found != peers_.end() && found->second.send, "{} has no channel to worker {}",
             socket_->label(), peer);
  return *found->second.send;
}

ReceiveChannel& LinkEndpoint::receiver(int peer) {
  const auto found = peers_.find(peer);
  KERF_CHECK(found != peers_.end() && found->second.receive, "{} has no channel from worker {}",
             socket_->label(), peer);
  return *found->second.receive;
}

bool LinkEndpoint::drain(Deadline deadline) {
  KERF_CHECK(engine_, "{} is drained before it was opened", socket_->label());
  auto lock = engine_->enter();
  socket_->check_interrupted();
  const auto released = [](const auto& entry) {
    return !entry.second.send || entry.second.send->all_released();
  };
  return engine_->serve(
      lock, [&] { return std::ranges::all_of(peers_, released); }, deadline);
}

int64_t LinkEndpoint::dropped() const {
  const auto lock = engine_ ? engine_->lock() : ProgressEngine::Lock();
  return socket_->dropped();
}

ChannelCounters LinkEndpoint::counters() const {
  const auto lock = engine_ ? engine_->lock() : ProgressEngine::Lock();
  ChannelCounters sum;
  sum.dropped = socket_->dropped();
  for (const auto& [number, peer] : peers_) {
    if (peer.send) sum += peer.send->counted();
    if (peer.receive) sum += peer.receive->counted();
  }
  return sum;
}

size_t LinkEndpoint::slot_bytes() const {
  size_t bytes = 0;
  for (const auto& [number, peer] : peers_) {
    if (peer.send) bytes += peer.send->memory().allocated();
    if (peer.receive) bytes += peer.receive->allocated();
  }
  return bytes;
}

std::unique_ptr<Endpoint> make_link_endpoint(const std::string& label,
                                             std::shared_ptr<Device> device, SlotStores stores,
                                             const std::string& host) {
  std::set<std::string> schemes;
  for (const auto& [kind, store] : stores)
    schemes.insert(kind == TransportKind::kTcp ? "tcp" : "ipc");
  auto socket = make_packet_socket(label, {schemes.begin(), schemes.end()}, host);
  return std::make_unique<LinkEndpoint>(std::move(socket), std::move(device), std::move(stores));
}

}  // namespace kerf::runtime
