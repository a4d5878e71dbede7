#include "tests/support/packet_exchange.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/error.h"

namespace kerf::tests {

using runtime::Deadline;
using runtime::Packet;
using runtime::PacketHeader;

class ExchangeSocket final : public runtime::PacketSocket {
 public:
  ExchangeSocket(PacketExchange& exchange, std::string label, int number)
      : exchange_(exchange),
        label_(std::move(label)),
        address_(kerf::format("ipc://@exchange-{}", number)) {}

  const std::string& label() const override { return label_; }
  const std::string& address() const override { return address_; }

  void identify(int32_t self, uint32_t epoch, uint64_t token) override {
    self_ = self;
    epoch_ = epoch;
    token_ = token;
    const std::lock_guard lock(exchange_.mutex_);
    inbox_ = &exchange_.inbox(self);
  }
  void expect(int32_t) override {}
  void connect(int32_t, const std::string&) override {}

  void send(int32_t peer, PacketHeader head, std::string_view body) override {
    head.epoch = epoch_;
    head.from = self_;
    head.token = token_;
    runtime::seal(head, body);
    const std::lock_guard lock(exchange_.mutex_);
    exchange_.put(peer, head, body);
  }
  void send_pinned(int32_t peer, PacketHeader head, const std::byte* data, size_t bytes) override {
    head.body_bytes = static_cast<uint32_t>(bytes);
    send(peer, head, {reinterpret_cast<const char*>(data), bytes});
  }

  std::optional<Packet> receive(runtime::PayloadPlaces& places, Lock& driving) override {
    while (take()) {
      const auto& [head, body] = last_;
      if (head.kind != runtime::PacketKind::kData || body.empty()) return Packet{head, body};
      std::byte* const to = places.place(head);
      if (to == nullptr) continue;
      driving.unlock();
      std::memcpy(to, body.data(), body.size());
      driving.lock();
      return Packet{head, {reinterpret_cast<const char*>(to), body.size()}};
    }
    return std::nullopt;
  }
  bool drained() const override { return drained_; }
  void send_unsent(Lock&) override {}
  bool has_unsent() const override { return false; }
  int descriptor() const override { return inbox_->bell.descriptor(); }

  void wait(Deadline deadline) override {
    if (!drained_) return;
    count_waiting(1);
    runtime::poll_readable({inbox_->bell.descriptor(), interrupted_.descriptor()}, deadline);
    count_waiting(-1);
  }
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
  int32_t self_ = 0;
  uint32_t epoch_ = 0;
  uint64_t token_ = 0;
  PacketExchange::Inbox* inbox_ = nullptr;
  std::pair<PacketHeader, std::string> last_;
  bool drained_ = false;
  int64_t dropped_ = 0;
  std::atomic<bool> is_interrupted_{false};
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

int64_t PacketExchange::taken_by_me(int worker) const {
  const std::lock_guard lock(mutex_);
  return inbox(worker).taken[std::this_thread::get_id()];
}

int64_t PacketExchange::taken_by_others(int worker) const {
  const std::lock_guard lock(mutex_);
  int64_t all = 0;
  for (const auto& [thread, count] : inbox(worker).taken)
    if (thread != std::this_thread::get_id()) all += count;
  return all;
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
