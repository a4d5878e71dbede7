#include "tests/support/packet_exchange.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include "runtime/error.h"
#include "runtime/link/packet_identity.h"

namespace kerf::tests {

using runtime::Deadline;
using runtime::Packet;
using runtime::PacketHeader;

namespace {

// Payload goes where it is to lie, without the lock meanwhile. False: it is not wanted.
bool put_in_place(Packet& packet, runtime::PayloadPlaces& places,
                  runtime::PacketSocket::Lock& lock) {
  if (packet.head.kind != runtime::PacketKind::kData || packet.body.empty()) return true;
  std::byte* const to = places.place(packet.head);
  if (to == nullptr) return false;
  lock.unlock();
  std::memcpy(to, packet.body.data(), packet.body.size());
  lock.lock();
  packet.body = {reinterpret_cast<const char*>(to), packet.body.size()};
  return true;
}

}  // namespace

class ExchangeSocket final : public runtime::PacketSocket {
 public:
  ExchangeSocket(PacketExchange& exchange, std::string label, int number)
      : exchange_(exchange),
        label_(std::move(label)),
        address_(kerf::format("ipc://@exchange-{}", number)) {}

  const std::string& label() const override { return label_; }
  const std::string& address() const override { return address_; }

  void identify(int32_t self, uint32_t epoch, uint64_t token) override {
    identity_ = {self, epoch, token};
    const std::lock_guard lock(exchange_.mutex_);
    inbox_ = &exchange_.inbox(self);
  }
  void expect(int32_t) override {}
  void connect(int32_t, const std::string&, const std::string&) override {}

  // Files are for who is reached by a connection.
  void send(int32_t peer, PacketHeader head, std::string_view body,
            std::shared_ptr<const runtime::OpenFile>) override {
    identity_.sign(head, body);
    const std::lock_guard lock(exchange_.mutex_);
    exchange_.put(peer, head, body);
  }
  void send_pinned(int32_t peer, PacketHeader head, const std::byte* data, size_t bytes) override {
    head.body_bytes = static_cast<uint32_t>(bytes);
    const std::string_view body{reinterpret_cast<const char*>(data), bytes};
    if (!keeps_payload()) return send(peer, head, body, {});
    identity_.sign(head, body);
    const std::lock_guard lock(exchange_.mutex_);
    inbox_->unsent.push_back({peer, head, body});
  }
  void send_unsent(Lock&) override {
    const std::lock_guard lock(exchange_.mutex_);
    for (; !inbox_->unsent.empty(); inbox_->unsent.pop_front()) {
      const auto& [to, head, body] = inbox_->unsent.front();
      exchange_.put(to, head, body);
      ++inbox_->sent[std::this_thread::get_id()];
    }
  }
  Queue queue(int32_t) const override { return {}; }  // nobody lost anything
  std::string trouble_with(int32_t) const override { return {}; }
  bool has_unsent() const override {
    const std::lock_guard lock(exchange_.mutex_);
    return !inbox_->unsent.empty();
  }
  bool can_send() const override { return has_unsent(); }

  std::optional<Packet> receive(runtime::PayloadPlaces& places, Lock& driving) override {
    send_unsent(driving);
    while (take()) {
      Packet packet{last_.first, last_.second};
      if (put_in_place(packet, places, driving)) return packet;
    }
    return std::nullopt;
  }
  bool drained() const override { return drained_; }
  int descriptor() const override { return inbox_->bell.descriptor(); }

  void wait(Deadline deadline) override {
    if (!drained_) return;
    count_waiting(1);
    runtime::poll_readable(
        {inbox_->bell.descriptor(), woken_.descriptor(), interrupted_.descriptor()}, deadline);
    count_waiting(-1);
    std::ignore = woken_.taken();
  }
  void wake() override { woken_.signal(); }
  void interrupt() override {
    is_interrupted_ = true;
    interrupted_.signal();
  }
  void check_interrupted() const override {
    if (is_interrupted_) throw Error(ErrorCode::kInterrupted, "interrupted", label_);
  }

  int64_t dropped() const override { return dropped_; }
  void drop() override { ++dropped_; }

 private:
  bool keeps_payload() const {
    const std::lock_guard lock(exchange_.mutex_);
    return inbox_->keeps_payload;
  }
  // The next packet becomes last_.
  bool take() {
    const std::lock_guard lock(exchange_.mutex_);
    ++inbox_->looks;
    std::ignore = inbox_->bell.taken();
    if (!inbox_->failure.empty()) throw Error(ErrorCode::kUnavailable, inbox_->failure, label_);
    drained_ = inbox_->packets.empty();
    if (drained_) {
      inbox_->looked_at = true;
      exchange_.changed_.notify_all();
      return false;
    }
    last_ = std::move(inbox_->packets.front());
    inbox_->packets.pop_front();
    ++inbox_->taken[std::this_thread::get_id()];
    return true;
  }
  void count_waiting(int more) {
    const std::lock_guard lock(exchange_.mutex_);
    inbox_->waiting += more;
    exchange_.changed_.notify_all();
  }

  PacketExchange& exchange_;
  const std::string label_;
  const std::string address_;
  runtime::PacketIdentity identity_;
  PacketExchange::Inbox* inbox_ = nullptr;
  std::pair<PacketHeader, std::string> last_;
  bool drained_ = false;
  int64_t dropped_ = 0;
  std::atomic<bool> is_interrupted_{false};
  runtime::EventFd woken_;
  runtime::EventFd interrupted_;
};

std::unique_ptr<runtime::PacketSocket> PacketExchange::make_socket(const std::string& label) {
  const std::lock_guard lock(mutex_);
  return std::make_unique<ExchangeSocket>(*this, label, sockets_++);
}

PacketExchange::Inbox& PacketExchange::inbox(int worker) const { return inboxes_[worker]; }

void PacketExchange::put(int worker, const PacketHeader& head, std::string_view body) {
  Inbox& to = inbox(worker);
  to.packets.emplace_back(head, body);
  if (std::exchange(to.looked_at, false) && !to.silent) to.bell.signal();
}

void PacketExchange::silence(int worker) {
  const std::lock_guard lock(mutex_);
  inbox(worker).silent = true;
}

void PacketExchange::flood(int worker, const PacketHeader& head, int count) {
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < count; ++i) put(worker, head, {});
}

size_t PacketExchange::untaken(int worker) const {
  const std::lock_guard lock(mutex_);
  return inbox(worker).packets.size();
}

void PacketExchange::keep_payload(int worker) {
  const std::lock_guard lock(mutex_);
  inbox(worker).keeps_payload = true;
}

namespace {

int64_t of_this_thread(const std::map<std::thread::id, int64_t>& counts) {
  const auto found = counts.find(std::this_thread::get_id());
  return found == counts.end() ? 0 : found->second;
}

int64_t of_others(const std::map<std::thread::id, int64_t>& counts) {
  int64_t all = 0;
  for (const auto& [thread, count] : counts) all += count;
  return all - of_this_thread(counts);
}

}  // namespace

int64_t PacketExchange::sent_by_me(int worker) const {
  const std::lock_guard lock(mutex_);
  return of_this_thread(inbox(worker).sent);
}

int64_t PacketExchange::sent_by_others(int worker) const {
  const std::lock_guard lock(mutex_);
  return of_others(inbox(worker).sent);
}

int64_t PacketExchange::taken_by_me(int worker) const {
  const std::lock_guard lock(mutex_);
  return of_this_thread(inbox(worker).taken);
}

int64_t PacketExchange::taken_by_others(int worker) const {
  const std::lock_guard lock(mutex_);
  return of_others(inbox(worker).taken);
}

int64_t PacketExchange::looks(int worker) const {
  const std::lock_guard lock(mutex_);
  return inbox(worker).looks;
}

bool PacketExchange::wait_until_taken(int worker, Deadline deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(
      lock, deadline, [&] { return inbox(worker).packets.empty() && inbox(worker).looked_at; });
}

bool PacketExchange::wait_until_waiting(int worker, Deadline deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [&] { return inbox(worker).waiting > 0; });
}

void PacketExchange::fail(int worker, const std::string& text) {
  const std::lock_guard lock(mutex_);
  inbox(worker).failure = text;
  inbox(worker).bell.signal();
}

}  // namespace kerf::tests
