// A packet socket over plain connections, TCP's or within a host Unix-domain ones: a listener of
// each kind that peers connect to, one connection to each peer. Bytes are read from the connection
// straight into the slots that they are for, by whoever drives: a thread between the two would copy
// them once more, and have to be woken.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <tuple>
#include <utility>

#include "runtime/control.h"
#include "runtime/epoll.h"
#include "runtime/error.h"
#include "runtime/host_address.h"
#include "runtime/link/packet_identity.h"
#include "runtime/link/packet_socket.h"
#include "runtime/link/packet_wait.h"
#include "runtime/link/with_peer.h"
#include "runtime/sockets/incoming_connection.h"
#include "runtime/sockets/outgoing_connection.h"
#include "runtime/sockets/stream_socket.h"
#include "runtime/timer_fd.h"

namespace kerf::runtime {
namespace {

constexpr std::chrono::milliseconds kLastWords{500};  // closing waits for unsent packets
// What receive() does for strangers at a time: so many packets, and so many connections.
constexpr int kStrangersAtATime = 32;
constexpr int kConnectionsAtATime = 32;
// Packets of connections that are known to have some, before one looks for others'.
constexpr int kPacketsAtATime = 32;
// Connections that have not said yet whose they are; one more closes the oldest.
constexpr int kStrangersAtMost = 64;

class StreamPacketSocket final : public PacketSocket {
 public:
  StreamPacketSocket(const std::string& label, const std::vector<std::string>& schemes,
                     const std::string& host);
  ~StreamPacketSocket() override;

  const std::string& label() const override { return label_; }
  const std::string& address() const override { return address_; }
  void identify(int32_t self, uint32_t epoch, uint64_t token) override {
    identity_ = {self, epoch, token};
  }
  void expect(int32_t peer) override { identity_.peers.insert(peer); }
  void connect(int32_t peer, const std::string& address, const std::string& secret) override;
  void send(int32_t peer, PacketHeader head, std::string_view body,
            std::shared_ptr<const OpenFile> file) override;
  void send_pinned(int32_t peer, PacketHeader head, const std::byte* data, size_t bytes) override;
  Queue queue(int32_t peer) const override {
    const OutgoingConnection& to = outgoing_.at(peer);
    return {to.given(), to.taken()};
  }
  std::string trouble_with(int32_t peer) const override;
  void send_unsent(Lock& lock) override {
    while (can_send()) write_all(&lock);
  }
  std::optional<Packet> receive(PayloadPlaces& places, Lock& lock) override;
  bool drained() const override { return ready_.empty() && !are_more_knocking_; }
  bool has_unsent() const override;
  bool can_send() const override;
  int descriptor() const override { return epoll_.descriptor(); }
  void wait(Deadline deadline) override {
    if (drained() && !can_send()) wait_.until_readable(epoll_.descriptor(), deadline);
  }
  void wake() override { wait_.wake(); }
  void interrupt() override { wait_.interrupt(); }
  void check_interrupted() const override { wait_.check(label_); }
  int64_t dropped() const override;
  void drop() override { ++dropped_; }

 private:
  struct Incoming {
    explicit Incoming(OpenFile socket) : connection(std::move(socket)) {}
    IncomingConnection connection;
    int32_t peer = -1;  // negative: a stranger's
    bool is_ready = false;
  };
  struct Listener {
    OpenFile socket;
    bool is_somebody_knocking = false;  // as far as we know
  };
  void listen(const std::string& scheme);
  OutgoingConnection& connection(int32_t peer);
  void look();
  void look_at_events();
  void look_and_write(Lock& lock);
  void connect_again();
  bool accept_some(Listener& listener);
  void begin_incoming(OpenFile socket);
  bool admit(Incoming& from, const PacketHeader& head);
  std::optional<std::string> secret_of(const ConnectionOpening& opening) const;
  bool is_encrypted_as_agreed(const Incoming& from, const PacketHeader& head) const;
  void make_ready(Incoming& incoming, uint32_t events);
  void forget(Incoming& incoming);
  void end(Incoming& incoming);
  void write_all(Lock* lock);

  const std::string label_;
  const std::string host_;  // over tcp we are there
  const Epoll epoll_;
  const TimerFd reconnects_;
  std::string address_;
  std::list<Listener> listeners_;
  std::map<int32_t, OutgoingConnection> outgoing_;
  std::list<Incoming> incoming_;  // in the order of their coming
  std::deque<Incoming*> ready_;   // may have something to read
  PacketIdentity identity_;
  struct Known {
    std::string secret;
    uint64_t newest = 0;  // number of its connections that has spoken
  };
  std::map<int32_t, Known> known_;  // peers whose connections are encrypted
  int64_t dropped_ = 0;
  bool are_more_knocking_ = false;  // accept_some() has left some
  int packets_ = 0;                 // since the last look()
  PacketWait wait_;
};

StreamPacketSocket::StreamPacketSocket(const std::string& label,
                                       const std::vector<std::string>& schemes,
                                       const std::string& host)
    : label_(label), host_(host) {
  for (const std::string& scheme : schemes) listen(scheme);
  epoll_.add(reconnects_.descriptor(), kTellsOnce);
}

void StreamPacketSocket::listen(const std::string& scheme) {
  std::string address;
  listeners_.push_back({scheme == "tcp" ? listen_tcp(host_, address)
                                        : listen_ipc(address = random_local_address())});
  Listener& made = listeners_.back();
  address_ += (address_.empty() ? "" : " ") + address;
  epoll_.add(made.socket.number(), kTellsOnce, &made);
}

StreamPacketSocket::~StreamPacketSocket() {
  const Deadline end = after(kLastWords);
  while (has_unsent() && !wait_.is_interrupted() && Clock::now() < end) {
    look();
    write_all(nullptr);
    if (has_unsent() && !can_send()) wait_.until_readable(epoll_.descriptor(), end);
  }
}

void StreamPacketSocket::connect(int32_t peer, const std::string& address,
                                 const std::string& secret) {
  with_peer(label_, peer, "a connection to", [&] {
    // It came from the peer, by way of the scheduler.
    if (is_loopback_host(host_))
      check_local_address(address);
    else
      check_address(address);
    expect(peer);
    std::optional<OutgoingConnection::Encrypted> encrypted;
    if (!secret.empty()) {
      known_[peer].secret = secret;
      encrypted = {secret, {.epoch = identity_.epoch, .from = identity_.self, .to = peer}};
    }
    OutgoingConnection& made =
        outgoing_.try_emplace(peer, address, epoll_, std::move(encrypted)).first->second;
    if (made.connect()) return;
    const int error = errno;
    if (is_shortage(error))
      throw Error(ErrorCode::kUnavailable,
                  kerf::format("{}{}", std::strerror(error), remedy_of(error)));
    connect_again();
  });
}

OutgoingConnection& StreamPacketSocket::connection(int32_t peer) {
  const auto found = outgoing_.find(peer);
  KERF_CHECK(found != outgoing_.end(), "{} is not connected to worker {}", label_, peer);
  if (found->second.is_given_up())
    throw Error(ErrorCode::kUnavailable,
                kerf::format("no connection to worker {}: what listens at {} is no worker; "
                             "start the run again",
                             peer, found->second.address()),
                label_);
  return found->second;
}

std::string StreamPacketSocket::trouble_with(int32_t peer) const {
  const OutgoingConnection& to = outgoing_.at(peer);
  if (to.error() == 0) return {};
  return kerf::format(": connecting to {}: {}{}", to.address(), std::strerror(to.error()),
                      to.error() == EACCES ? "; where that is forbidden, as it may be between "
                                             "containers, try --transport tcp"
                                           : remedy_of(to.error()));
}

// At once where nothing is before it, for it is little.
void StreamPacketSocket::send(int32_t peer, PacketHeader head, std::string_view body,
                              std::shared_ptr<const OpenFile> file) {
  OutgoingConnection& to = connection(peer);
  if (file) head.flags |= kWithFile;
  identity_.sign(head, body);
  const bool first = !to.has_unsent();
  to.push(head, body, std::move(file));
  if (!first) return;
  to.write(nullptr);
  connect_again();
}

void StreamPacketSocket::send_pinned(int32_t peer, PacketHeader head, const std::byte* data,
                                     size_t bytes) {
  OutgoingConnection& to = connection(peer);
  head.body_bytes = static_cast<uint32_t>(bytes);
  identity_.sign(head, {});
  to.push_pinned(head, data, bytes);
}

bool StreamPacketSocket::has_unsent() const {
  return std::ranges::any_of(outgoing_,
                             [](const auto& entry) { return entry.second.has_unsent(); });
}

int64_t StreamPacketSocket::dropped() const {
  int64_t all = dropped_;
  for (const auto& [peer, to] : outgoing_) all += to.answered();
  return all;
}

bool StreamPacketSocket::can_send() const {
  return std::ranges::any_of(outgoing_, [](const auto& entry) { return entry.second.can_write(); });
}

void StreamPacketSocket::write_all(Lock* lock) {
  for (auto& [peer, to] : outgoing_) to.write(lock);
  connect_again();  // what writing has found broken, too
}

void StreamPacketSocket::look() {
  look_at_events();
  are_more_knocking_ = false;
  bool has_accepted = false;
  for (Listener& listener : listeners_)
    if (listener.is_somebody_knocking) has_accepted = accept_some(listener) || has_accepted;
  // What came with them is not told again to who waits for more.
  if (has_accepted) look_at_events();
}

void StreamPacketSocket::look_at_events() {
  std::array<epoll_event, 64> events;
  const int count =
      ::epoll_wait(epoll_.descriptor(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    void* const whose = events[i].data.ptr;
    const auto is_whose = [&](const auto& entry) { return &entry.second == whose; };
    const auto is_it = [&](const Listener& listener) { return &listener == whose; };
    if (const auto to = std::ranges::find_if(outgoing_, is_whose); to != outgoing_.end())
      to->second.look(events[i].events);
    else if (const auto at = std::ranges::find_if(listeners_, is_it); at != listeners_.end())
      at->is_somebody_knocking = true;
    else if (whose != nullptr)  // otherwise it is time to connect, which is looked at anyhow
      make_ready(*static_cast<Incoming*>(whose), events[i].events);
  }
}

// Those that have none, once it is time; what fails by then is tried again.
void StreamPacketSocket::connect_again() {
  std::optional<Clock::time_point> next;
  for (auto& [peer, to] : outgoing_) {
    if (const auto when = to.is_to_connect(); when && *when <= Clock::now())
      std::ignore = to.connect();
    if (const auto when = to.is_to_connect(); when && (!next || *when < *next)) next = when;
  }
  if (next) reconnects_.set(*next);
}

void StreamPacketSocket::make_ready(Incoming& incoming, uint32_t events) {
  incoming.connection.wake((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
  if (!std::exchange(incoming.is_ready, true)) ready_.push_back(&incoming);
}

// Whether there are new connections.
bool StreamPacketSocket::accept_some(Listener& listener) {
  bool is_any_new = false;
  for (int i = 0; i < kConnectionsAtATime; ++i) {
    auto socket = accept_connection(listener.socket);
    if (socket) {
      begin_incoming(std::move(*socket));
      is_any_new = true;
      continue;
    }
    if (errno == EACCES) ++dropped_;  // another user's
    const bool is_nobody_there = errno == EAGAIN || errno == EWOULDBLOCK;
    if (!is_nobody_there && !is_shortage(errno)) continue;  // or that one has gone again
    listener.is_somebody_knocking = !is_nobody_there;  // to be tried again, with fewer files open
    return is_any_new;
  }
  are_more_knocking_ = true;
  return is_any_new;
}

void StreamPacketSocket::begin_incoming(OpenFile socket) {
  const auto is_stranger = [](const Incoming& each) { return each.peer < 0; };
  // Peers that have not spoken yet are among them.
  const auto most = kStrangersAtMost + static_cast<int64_t>(identity_.peers.size());
  if (std::ranges::count_if(incoming_, is_stranger) >= most) {
    ++dropped_;
    forget(*std::ranges::find_if(incoming_, is_stranger));
  }
  const int descriptor = socket.number();
  Incoming& made = incoming_.emplace_back(std::move(socket));
  if (!epoll_.try_add(descriptor, kTellsOnce, &made)) forget(made);
}

void StreamPacketSocket::forget(Incoming& incoming) {
  epoll_.remove(incoming.connection.descriptor());
  std::erase(ready_, &incoming);
  incoming_.remove_if([&](const Incoming& each) { return &each == &incoming; });
}

void StreamPacketSocket::end(Incoming& incoming) {
  const bool is_strangers = incoming.peer < 0;
  if (incoming.connection.was_unsound() || (incoming.connection.was_cut() && is_strangers))
    ++dropped_;
  forget(incoming);
}

// The first packet says whose a connection is; a peer that connects again has left the one before.
bool StreamPacketSocket::admit(Incoming& from, const PacketHeader& head) {
  if (!identity_.is_peers(head) || !is_encrypted_as_agreed(from, head)) return false;
  if (from.peer == head.from) return true;
  if (from.peer >= 0) return false;
  if (const auto& opening = from.connection.opening()) {
    Known& known = known_.at(head.from);
    if (opening->number <= known.newest) return false;  // somebody repeats it
    known.newest = opening->number;
  }
  for (Incoming& each : incoming_) {
    if (&each == &from) break;
    if (each.peer == head.from) {
      forget(each);
      break;
    }
  }
  // One that came later has spoken already.
  if (std::ranges::count(incoming_, head.from, &Incoming::peer) > 0) return false;
  from.peer = head.from;
  return true;
}

std::optional<std::string> StreamPacketSocket::secret_of(const ConnectionOpening& opening) const {
  const auto known = known_.find(opening.from);
  if (known == known_.end() || opening.number <= known->second.newest ||
      opening.epoch != identity_.epoch || opening.to != identity_.self)
    return std::nullopt;
  return opening.secret(known->second.secret);
}

bool StreamPacketSocket::is_encrypted_as_agreed(const Incoming& from,
                                                const PacketHeader& head) const {
  const auto& opening = from.connection.opening();
  return opening ? opening->from == head.from : !known_.contains(head.from);
}

void StreamPacketSocket::look_and_write(Lock& lock) {
  packets_ = 0;
  look();
  write_all(&lock);
}

std::optional<Packet> StreamPacketSocket::receive(PayloadPlaces& places, Lock& lock) {
  const bool looks_first = ready_.empty() || has_unsent() || packets_ >= kPacketsAtATime;
  if (looks_first) look_and_write(lock);
  for (int dropped = 0; dropped < kStrangersAtATime;) {
    if (ready_.empty() && packets_ > 0) look_and_write(lock);
    if (ready_.empty()) break;
    Incoming& from = *ready_.front();
    auto packet =
        from.connection.read({[&](const ConnectionOpening& opening) { return secret_of(opening); },
                              [&](const PacketHeader& head) { return admit(from, head); }},
                             places, lock);
    ready_.pop_front();
    ++packets_;
    const bool has_more = packet || from.connection.has_more();
    if (has_more) ready_.push_back(&from);  // all have their turn
    if (packet) return packet;
    ++dropped;
    if (has_more) continue;
    from.is_ready = false;
    if (from.connection.has_ended()) end(from);
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<PacketSocket> make_packet_socket(const std::string& label,
                                                 const std::vector<std::string>& schemes,
                                                 const std::string& host) {
  KERF_CHECK(!schemes.empty(), "{} needs a scheme", label);
  return std::make_unique<StreamPacketSocket>(label, schemes, host);
}

}  // namespace kerf::runtime
