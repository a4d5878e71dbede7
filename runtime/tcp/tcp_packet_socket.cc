// A packet socket over plain TCP: one listener that every peer connects to, one connection to each
// peer. Bytes are read from the connection straight into the slots that they are for, by whoever
// drives: a thread between the two would copy them once more.
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <utility>

#include "runtime/control.h"
#include "runtime/error.h"
#include "runtime/link/packet_socket.h"
#include "runtime/link/packet_wait.h"
#include "runtime/link/with_peer.h"
#include "runtime/tcp/incoming_connection.h"
#include "runtime/tcp/outgoing_connection.h"
#include "runtime/tcp/tcp_socket.h"

namespace kerf::runtime {
namespace {

constexpr std::chrono::milliseconds kLastWords{500};  // closing waits for unsent packets
// What receive() does for strangers at a time: so many packets, and so many connections.
constexpr int kStrangersAtATime = 32;
constexpr int kConnectionsAtATime = 32;
// Connections that have not said yet whose they are; one more closes the oldest.
constexpr int kStrangersAtMost = 64;

OpenFile make_epoll(const std::string& label) {
  OpenFile made(::epoll_create1(EPOLL_CLOEXEC));
  if (made.number() < 0)
    throw Error(ErrorCode::kUnavailable, kerf::format("no epoll: {}", std::strerror(errno)), label);
  return made;
}

class TcpPacketSocket final : public PacketSocket {
 public:
  explicit TcpPacketSocket(const std::string& label);
  ~TcpPacketSocket() override;

  const std::string& label() const override { return label_; }
  const std::string& address() const override { return address_; }
  void identify(int32_t self, uint32_t epoch, uint64_t token) override;
  void expect(int32_t peer) override { peers_.insert(peer); }
  void connect(int32_t peer, const std::string& address) override;
  void send(int32_t peer, PacketHeader head, std::string_view body) override;
  void send_pinned(int32_t peer, PacketHeader head, const std::byte* data, size_t bytes) override;
  void send_unsent(Lock& lock) override { write_all(&lock); }
  std::optional<Packet> receive(PayloadPlaces& places, Lock& lock) override;
  bool drained() const override { return ready_.empty() && !are_more_knocking_; }
  bool has_unsent() const override;
  int descriptor() const override { return epoll_.number(); }
  void wait(Deadline deadline) override {
    if (drained()) wait_.until_readable(epoll_.number(), deadline);
  }
  void interrupt() override { wait_.interrupt(); }
  void check_interrupted() const override { wait_.check(label_); }
  int64_t dropped() const override { return dropped_; }
  void drop() override { ++dropped_; }

 private:
  struct Incoming {
    explicit Incoming(OpenFile socket) : connection(std::move(socket)) {}
    IncomingConnection connection;
    int32_t peer = -1;  // negative: a stranger's
    bool is_ready = false;
  };
  OutgoingConnection& connection(int32_t peer);
  void fill_in(PacketHeader& head, std::string_view body) const;
  void watch(int descriptor, void* whose);
  void look();
  void accept_some();
  void begin_incoming(OpenFile socket);
  bool admit(Incoming& from, const PacketHeader& head);
  void make_ready(Incoming& incoming, uint32_t events);
  void forget(Incoming& incoming);
  void write_all(Lock* lock);

  const std::string label_;
  const OpenFile epoll_;
  std::string address_;
  const OpenFile listener_;
  std::map<int32_t, OutgoingConnection> outgoing_;
  std::set<int32_t> peers_;
  std::list<Incoming> incoming_;  // in the order of their coming
  std::deque<Incoming*> ready_;   // may have something to read
  int32_t self_ = 0;
  uint32_t epoch_ = 0;
  uint64_t token_ = 0;
  int64_t dropped_ = 0;
  bool is_somebody_knocking_ = false;  // as far as we know
  bool are_more_knocking_ = false;     // accept_some() has left some
  PacketWait wait_;
};

TcpPacketSocket::TcpPacketSocket(const std::string& label)
    : label_(label), epoll_(make_epoll(label)), listener_(listen_tcp("127.0.0.1", address_)) {
  watch(listener_.number(), nullptr);
}

TcpPacketSocket::~TcpPacketSocket() {
  const Deadline end = after(kLastWords);
  while (has_unsent() && !wait_.is_interrupted() && Clock::now() < end) {
    look();
    write_all(nullptr);
    if (has_unsent()) wait_.until_readable(epoll_.number(), std::min(end, after(kLastWords / 10)));
  }
}

// Tells once of what it has to tell.
void TcpPacketSocket::watch(int descriptor, void* whose) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = whose;
  KERF_CHECK(::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, descriptor, &event) == 0, "epoll_ctl: {}",
             std::strerror(errno));
}

void TcpPacketSocket::identify(int32_t self, uint32_t epoch, uint64_t token) {
  self_ = self;
  epoch_ = epoch;
  token_ = token;
}

void TcpPacketSocket::connect(int32_t peer, const std::string& address) {
  with_peer(label_, peer, "a connection to", [&] {
    check_local_address(address);  // it came from the peer, by way of the scheduler
    expect(peer);
    OutgoingConnection& made = outgoing_.try_emplace(peer, address).first->second;
    if (made.connect()) watch(made.descriptor(), &made);
  });
}

OutgoingConnection& TcpPacketSocket::connection(int32_t peer) {
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

void TcpPacketSocket::fill_in(PacketHeader& head, std::string_view body) const {
  head.epoch = epoch_;
  head.from = self_;
  head.token = token_;
  seal(head, body);
}

// At once where nothing is before it, for it is little.
void TcpPacketSocket::send(int32_t peer, PacketHeader head, std::string_view body) {
  OutgoingConnection& to = connection(peer);
  fill_in(head, body);
  const bool first = !to.has_unsent();
  to.push(head, body);
  if (first) to.write(nullptr);
}

void TcpPacketSocket::send_pinned(int32_t peer, PacketHeader head, const std::byte* data,
                                  size_t bytes) {
  OutgoingConnection& to = connection(peer);
  head.body_bytes = static_cast<uint32_t>(bytes);
  fill_in(head, {});
  to.push_pinned(head, data, bytes);
}

bool TcpPacketSocket::has_unsent() const {
  return std::ranges::any_of(outgoing_,
                             [](const auto& entry) { return entry.second.has_unsent(); });
}

void TcpPacketSocket::write_all(Lock* lock) {
  for (auto& [peer, to] : outgoing_) to.write(lock);
}

void TcpPacketSocket::look() {
  for (auto& [peer, to] : outgoing_)
    if (to.connect()) watch(to.descriptor(), &to);
  std::array<epoll_event, 64> events;
  const int count =
      ::epoll_wait(epoll_.number(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    void* const whose = events[i].data.ptr;
    const auto is_whose = [&](const auto& entry) { return &entry.second == whose; };
    if (const auto to = std::ranges::find_if(outgoing_, is_whose); to != outgoing_.end())
      to->second.look((events[i].events & ~uint32_t{EPOLLOUT}) != 0);
    else if (whose == nullptr)
      is_somebody_knocking_ = true;
    else
      make_ready(*static_cast<Incoming*>(whose), events[i].events);
  }
  // Last: it may end some of them.
  if (is_somebody_knocking_) accept_some();
}

void TcpPacketSocket::make_ready(Incoming& incoming, uint32_t events) {
  incoming.connection.wake((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
  if (!std::exchange(incoming.is_ready, true)) ready_.push_back(&incoming);
}

void TcpPacketSocket::accept_some() {
  are_more_knocking_ = true;
  for (int i = 0; i < kConnectionsAtATime; ++i) {
    auto socket = accept_tcp(listener_);
    if (socket) {
      begin_incoming(std::move(*socket));
      continue;
    }
    are_more_knocking_ = false;
    // Otherwise it is to be tried again, when fewer files are open for example.
    is_somebody_knocking_ = errno != EAGAIN && errno != EWOULDBLOCK;
    return;
  }
}

void TcpPacketSocket::begin_incoming(OpenFile socket) {
  const auto is_stranger = [](const Incoming& each) { return each.peer < 0; };
  if (std::ranges::count_if(incoming_, is_stranger) >= kStrangersAtMost) {
    ++dropped_;
    forget(*std::ranges::find_if(incoming_, is_stranger));
  }
  const int descriptor = socket.number();
  watch(descriptor, &incoming_.emplace_back(std::move(socket)));
}

void TcpPacketSocket::forget(Incoming& incoming) {
  std::erase(ready_, &incoming);
  incoming_.remove_if([&](const Incoming& each) { return &each == &incoming; });
}

// The first packet says whose a connection is; a peer that connects again has left the one before.
bool TcpPacketSocket::admit(Incoming& from, const PacketHeader& head) {
  if (head.epoch != epoch_ || head.token != token_ || !peers_.contains(head.from)) return false;
  if (from.peer == head.from) return true;
  if (from.peer >= 0) return false;
  const auto before = std::ranges::find(incoming_, head.from, &Incoming::peer);
  if (before != incoming_.end()) forget(*before);
  from.peer = head.from;
  return true;
}

std::optional<Packet> TcpPacketSocket::receive(PayloadPlaces& places, Lock& lock) {
  look();
  write_all(&lock);
  for (int dropped = 0; dropped < kStrangersAtATime && !ready_.empty();) {
    Incoming& from = *ready_.front();
    auto packet = from.connection.read([&](const PacketHeader& head) { return admit(from, head); },
                                       places, lock);
    ready_.pop_front();
    if (packet) {
      ready_.push_back(&from);  // all have their turn
      return packet;
    }
    from.is_ready = false;
    if (!from.connection.has_ended()) continue;
    if (from.connection.was_unsound()) {
      ++dropped_;
      ++dropped;
    }
    forget(from);
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<PacketSocket> make_tcp_packet_socket(const std::string& label) {
  return std::make_unique<TcpPacketSocket>(label);
}

}  // namespace kerf::runtime
