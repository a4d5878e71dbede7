// The control plane over ZeroMQ: the scheduler binds a ROUTER, each worker connects a DEALER whose
// routing id is fresh and random, so that a reconnection keeps its link and nobody can take it over
// by guessing. Links (control_link.h) heal what breaks; no ZMTP heartbeats, which abort the process
// when a receiver is slow (libzmq issue 3937).
#include <cerrno>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <zmq.hpp>

#include "runtime/control.h"
#include "runtime/control_link.h"
#include "runtime/event_fd.h"
#include "runtime/host_address.h"
#include "runtime/keys.h"
#include "runtime/standstill.h"
#include "runtime/unanswered.h"
#include "runtime/zmq/attempts.h"
#include "runtime/zmq/brief_wait.h"
#include "runtime/zmq/gate.h"
#include "runtime/zmq/socket.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

constexpr int kControlQueue = 128;  // messages of one connection before it is held back
constexpr int kControlReconnectMs = 20;
constexpr auto kFlushLooks = 300ms;
constexpr size_t kFencedAtMost = size_t{1} << 16;  // peers that are known as such
constexpr int kTickEvery = 64;  // messages, or dropped frames, between looks at the clock

zmq::socket_t control_socket(zmq::context_t& context, zmq::socket_type type,
                             std::string routing_id) {
  return make_socket(context, type,
                     {.routing_id = std::move(routing_id),
                      .max_frame_bytes = static_cast<int64_t>(kMaxControlBytes + kHeaderBytes),
                      .receive_queue = type == zmq::socket_type::router ? kControlQueue : 0,
                      .linger = 500ms});
}

std::vector<zmq::pollitem_t> readable(zmq::socket_t& socket, const std::vector<int>& descriptors) {
  std::vector<zmq::pollitem_t> items;
  items.reserve(descriptors.size() + 1);
  items.push_back({socket.handle(), 0, ZMQ_POLLIN, 0});
  for (const int descriptor : descriptors) items.push_back({nullptr, descriptor, ZMQ_POLLIN, 0});
  return items;
}

bool is_readable(zmq::socket_t& socket, const std::vector<int>& descriptors) {
  auto items = readable(socket, descriptors);
  return zmq_poll(items.data(), static_cast<int>(items.size()), 0) > 0;
}

// Blocks until the socket or a descriptor is readable, a signal arrives or the deadline passes.
void wait_for(zmq::socket_t& socket, const std::vector<int>& descriptors, Deadline deadline) {
  auto items = readable(socket, descriptors);
  zmq_poll(items.data(), static_cast<int>(items.size()), milliseconds_left(deadline));
}

std::string_view text(const zmq::message_t& message) {
  return {static_cast<const char*>(message.data()), message.size()};
}

class ZmqControlServer final : public ControlServer {
 public:
  ZmqControlServer(const std::string& address, int peers_at_most, const Admission& admission)
      : peers_at_most_(static_cast<size_t>(peers_at_most)),
        context_(make_zmq_context()),
        router_(control_socket(context_, zmq::socket_type::router, {})),
        waited_({event_.descriptor()}) {
    if (!admission.keys.empty()) {
      refusals_.emplace(admission.notice);
      gate_.emplace(context_, router_, read_scheduler_keys(admission.keys), *refusals_);
    }
    address_ = bind_socket(router_, address);
  }

  // Workers that have just said goodbye wait for its arrival.
  ~ZmqControlServer() override {
    for (auto& [number, peer] : peers_) peer.link.acknowledge_now();
  }

  std::string address() const override { return address_; }

  void send(int peer, ControlMessage message) override {
    if (const auto found = peers_.find(peer); found != peers_.end()) {
      found->second.link.send(message);
      tick_at_ = std::min(tick_at_, found->second.link.next_tick());
    }
  }

  std::optional<Incoming> receive(Deadline deadline) override {
    if (++received_ % kTickEvery == 0) tick_if_due();
    while (true) {
      if (gate_) gate_->check();
      bool more = true;
      // In portions: a flood of garbage must not hold us.
      for (int taken = 0; more && taken < kTickEvery; ++taken) {
        if (!broken_.empty()) {
          const int peer = broken_.front();
          broken_.pop_front();
          return Incoming{.peer = peer, .message = {}, .disconnected = true};
        }
        zmq::message_t id;
        more = receive_now(router_, id);
        if (!more) break;
        if (auto incoming = take(id)) return incoming;
      }
      if (event_.taken()) return {};
      tick_if_due();
      if (Clock::now() >= deadline) return {};
      if (!more) wait(std::min(deadline, tick_at_));
      if (watched_readable()) return {};
    }
  }

  int64_t unacknowledged_answers(int peer) const override {
    const auto found = peers_.find(peer);
    return found == peers_.end() ? 0 : found->second.link.unacknowledged_answers();
  }

  void forget(int peer) override {
    const auto found = peers_.find(peer);
    if (found == peers_.end()) return;
    forgotten_ += found->second.link.counters();
    numbers_.erase(found->second.id);
    peers_.erase(found);
  }

  void fence(int peer) override {
    const auto found = peers_.find(peer);
    if (found == peers_.end()) return;
    // Of a run with more losses than that the first are strangers by now.
    if (fenced_.size() >= kFencedAtMost) fenced_.clear();
    fenced_.insert(found->second.id);
    forget(peer);
  }

  void watch(int descriptor) override { waited_.push_back(descriptor); }
  void unwatch(int descriptor) override { std::erase(waited_, descriptor); }
  void wake() override { event_.signal(); }

  ControlCounters counters() const override {
    ControlCounters sum = forgotten_;
    for (const auto& [number, peer] : peers_) sum += peer.link.counters();
    if (gate_) sum.refused = gate_->refused();
    return sum;
  }

 private:
  struct Peer {
    std::string id;
    ControlLink link;
    bool broken = false;
  };

  void wait(Deadline until) {
    const auto come = [&] { return is_readable(router_, waited_); };
    if (brief_.awake(come, until)) return;
    wait_for(router_, waited_, until);
    if (come()) brief_.slept();
  }

  bool watched_readable() const {
    if (waited_.size() == 1) return false;
    std::vector<zmq::pollitem_t> items;
    for (size_t i = 1; i < waited_.size(); ++i)
      items.push_back({nullptr, waited_[i], ZMQ_POLLIN, 0});
    return zmq_poll(items.data(), static_cast<int>(items.size()), 0) > 0;
  }

  // The frame that follows a routing id. Empty if it was dropped or was for the link alone.
  std::optional<Incoming> take(zmq::message_t& id) {
    zmq::message_t body;
    if (!id.more() || !receive_now(router_, body) || body.more()) {
      drop_rest(body.more());
      ++forgotten_.dropped;
      return {};
    }
    FrameFault fault = FrameFault::kNone;
    const auto frame = parse_frame(text(body), fault);
    if (!frame) {
      ++forgotten_.dropped;
      if (fault == FrameFault::kVersion) answer_version(id);
      return {};
    }
    const int number = find_or_admit(id.to_string(), *frame);
    if (number < 0 && fenced_.contains(id.to_string())) {
      if (ControlLink::ends_message(*frame)) ++forgotten_.fenced;
      return {};
    }
    if (number < 0) {
      ++forgotten_.dropped;
      if (refusals_) refusals_->add(Refusal::kNoWorkerOfThisRun, host_of(body));
      return {};
    }
    Peer& peer = peers_.at(number);
    peer.broken = false;
    auto message = peer.link.receive(*frame);
    tick_at_ = std::min(tick_at_, peer.link.next_tick());
    if (!message) return {};
    return Incoming{.peer = number, .message = std::move(*message), .host = host_of(body)};
  }

  void drop_rest(bool more) {
    zmq::message_t part;
    while (more && receive_now(router_, part)) more = part.more();
  }

  // Where its connection comes from, as ZeroMQ saw it; over ipc that is no host. What is no number,
  // such as one with a zone, is handed on as it is: taken for this host it would be believed.
  std::string host_of(zmq::message_t& message) const {
    if (!split_tcp(address_)) return {};
    const char* const from = zmq_msg_gets(message.handle(), "Peer-Address");
    if (from == nullptr || *from == '\0') return "an unknown host";
    const auto host = HostAddress::parse(from);
    return host ? host->text() : from;
  }

  // A worker of another version cannot read our reasons; our version in a header is one it can.
  void answer_version(zmq::message_t& id) {
    emit(id.to_string(), make_frame({.type = static_cast<uint16_t>(ControlType::kRefuse)}, {}));
  }

  // -1 for a stranger.
  int find_or_admit(std::string id, const Frame& frame) {
    if (const auto found = numbers_.find(id); found != numbers_.end()) return found->second;
    if (!ControlLink::opens(frame) || peers_.size() >= peers_at_most_) return -1;
    const int number = next_number_++;
    const auto emit_to_it = [this, id, number](const std::string& out) {
      if (!emit(id, out)) mark_broken(number);
    };
    numbers_.emplace(id, number);
    peers_.emplace(number,
                   Peer{.id = std::move(id), .link = ControlLink(emit_to_it, kMaxControlMessage)});
    return number;
  }

  // False when the connection is gone; the link keeps the frame until it is acknowledged.
  bool emit(const std::string& id, const std::string& frame) {
    return send_now(router_, id, ZMQ_SNDMORE) && send_now(router_, frame);
  }

  void mark_broken(int number) {
    const auto found = peers_.find(number);
    if (found == peers_.end() || found->second.broken) return;
    found->second.broken = true;
    broken_.push_back(number);
  }

  void tick_if_due() {
    const auto now = Clock::now();
    if (now < tick_at_) return;
    tick_at_ = Clock::time_point::max();
    for (auto& [number, peer] : peers_) {
      peer.link.tick(now);
      tick_at_ = std::min(tick_at_, peer.link.next_tick());
    }
  }

  const size_t peers_at_most_;
  zmq::context_t context_;
  std::optional<RefusalLog> refusals_;  // of a run with keys
  std::optional<Gate> gate_;            // likewise; outlives what it guards
  zmq::socket_t router_;
  EventFd event_;
  BriefWait<> brief_;
  std::vector<int> waited_;  // the event, then what is watched
  std::string address_;
  std::unordered_map<int, Peer> peers_;
  std::unordered_map<std::string, int> numbers_;  // by routing id
  std::unordered_set<std::string> fenced_;        // likewise
  std::deque<int> broken_;
  int next_number_ = 0;
  uint64_t received_ = 0;
  Clock::time_point tick_at_ = Clock::time_point::max();
  ControlCounters forgotten_;  // of forgotten peers, and of strangers
};

class ZmqControlClient final : public ControlClient {
 public:
  ZmqControlClient(const std::string& address, const std::string& keys, Unanswered unanswered)
      : address_(address),
        context_(make_zmq_context()),
        dealer_(control_socket(context_, zmq::socket_type::dealer,
                               kerf::format("{:016x}{:016x}", random_bits(), random_bits()))),
        link_([this](const std::string& frame) { send_now(dealer_, frame); }) {
    // A worker is often up before its scheduler listens.
    dealer_.set(zmq::sockopt::reconnect_ivl, kControlReconnectMs);
    if (!keys.empty()) show_keys(dealer_, read_worker_keys(keys));
    if (unanswered.tell)
      attempts_.emplace(context_, dealer_, Attempts::Aim{address, keys}, std::move(unanswered));
    connect_socket(dealer_, address);
  }

  void send(ControlMessage message) override { link_.send(message); }

  std::optional<ControlMessage> receive(Deadline deadline) override {
    if (++received_ % kTickEvery == 0) tick_if_due();
    while (true) {
      zmq::message_t body;
      if (receive_now(dealer_, body)) {
        if (auto message = take(body)) return message;
        continue;
      }
      if (attempts_) attempts_->look();
      if (event_.taken()) return {};
      tick_if_due();
      if (Clock::now() >= deadline) return {};
      wait_for(dealer_, {event_.descriptor()}, std::min(deadline, link_.next_tick()));
    }
  }

  void wake() override { event_.signal(); }
  std::string hindrance() const override { return attempts_ ? attempts_->hindrance() : ""; }

  bool flush(Deadline deadline) override {
    link_.probe();
    Standstill still(kFlushLooks);
    while (!link_.all_acknowledged()) {
      zmq::message_t body;
      if (receive_now(dealer_, body)) {
        take(body);
        continue;
      }
      tick_if_due();
      deadline = postponed(deadline, still.look());
      if (Clock::now() >= deadline) return false;
      wait_for(dealer_, {}, std::min({deadline, link_.next_tick(), after(kFlushLooks)}));
    }
    return true;
  }

  ControlCounters counters() const override {
    ControlCounters sum = link_.counters();
    sum.dropped += dropped_;
    return sum;
  }

 private:
  std::optional<ControlMessage> take(const zmq::message_t& body) {
    FrameFault fault = FrameFault::kNone;
    const auto frame = parse_frame(text(body), fault);
    attempts_.reset();
    if (frame) return link_.receive(*frame);
    ++dropped_;
    if (fault == FrameFault::kVersion)
      throw Error(ErrorCode::kProtocol,
                  kerf::format("the scheduler at {} speaks another protocol version than this "
                               "worker ({}); run the same build of kerf on both sides",
                               address_, kProtocol));
    return {};
  }

  void tick_if_due() {
    const auto now = Clock::now();
    if (now >= link_.next_tick()) link_.tick(now);
  }

  std::string address_;
  zmq::context_t context_;
  zmq::socket_t dealer_;
  std::optional<Attempts> attempts_;  // until the scheduler answers
  EventFd event_;
  ControlLink link_;
  uint64_t received_ = 0;
  int64_t dropped_ = 0;
};

}  // namespace

std::unique_ptr<ControlServer> make_control_server(const std::string& address, int peers_at_most,
                                                   const Admission& admission) {
  check_control_address(address, !admission.keys.empty());
  return std::make_unique<ZmqControlServer>(address, peers_at_most, admission);
}

std::unique_ptr<ControlClient> make_control_client(const std::string& address,
                                                   const std::string& keys) {
  return make_control_client(address, keys, Unanswered{});
}

std::unique_ptr<ControlClient> make_control_client(const std::string& address,
                                                   const std::string& keys, Unanswered unanswered) {
  check_control_address(address, !keys.empty());
  return std::make_unique<ZmqControlClient>(address, keys, std::move(unanswered));
}

}  // namespace kerf::runtime
