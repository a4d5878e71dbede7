// Channels between threads of one process: queues, a mutex and condition variables per channel.
#include <algorithm>
#include <atomic>
#include <mutex>

#include "runtime/error.h"
#include "runtime/inproc/inproc_hub.h"
#include "runtime/transports.h"

namespace kerf::runtime {
namespace {

class InprocSender final : public SendChannel {
 public:
  explicit InprocSender(std::shared_ptr<InprocPipe> pipe) : pipe_(std::move(pipe)) {}

  std::optional<Slot> acquire(int lane, size_t bytes, Deadline deadline) override {
    return pipe_->acquire(lane, bytes, deadline);
  }
  void commit(const Slot& slot, const Tag& tag, Stream* stream) override {
    pipe_->commit(slot, tag, stream);
    ++counters_.messages;
    counters_.bytes += static_cast<int64_t>(slot.bytes);
  }
  void abandon(const Slot& slot) override { pipe_->abandon(slot); }
  void retain(const Slot& slot) override { pipe_->retain(slot); }
  void retire(const Slot& slot) override { pipe_->retire(slot); }
  ChannelCounters counters() const override { return counters_; }
  InprocPipe& pipe() { return *pipe_; }

 private:
  std::shared_ptr<InprocPipe> pipe_;
  ChannelCounters counters_;
};

class InprocReceiver final : public ReceiveChannel {
 public:
  explicit InprocReceiver(std::shared_ptr<InprocPipe> pipe) : pipe_(std::move(pipe)) {}

  std::optional<View> receive(Deadline deadline) override {
    std::optional<View> view = pipe_->receive(deadline);
    if (view) {
      ++counters_.messages;
      counters_.bytes += static_cast<int64_t>(view->bytes);
    }
    return view;
  }
  void release(const View& view, Stream* stream) override { pipe_->release(view, stream); }
  ChannelCounters counters() const override { return counters_; }
  InprocPipe& pipe() { return *pipe_; }

 private:
  std::shared_ptr<InprocPipe> pipe_;
  ChannelCounters counters_;
};

class InprocEndpoint final : public Endpoint {
 public:
  InprocEndpoint(const std::string& label, std::shared_ptr<Device> device,
                 std::shared_ptr<InprocHub> hub)
      : label_(label),
        device_(std::move(device)),
        hub_(std::move(hub)),
        address_(hub_->new_address(label)) {}
  ~InprocEndpoint() override { hub_->forget(address_); }

  std::string address() const override { return address_; }

  void open(const Wiring& wiring, Deadline deadline) override {
    KERF_CHECK(senders_.empty() && receivers_.empty(), "{} was opened before", label_);
    const auto begin = Clock::now();
    for (const auto& [peer, lanes] : wiring.send) offer(wiring, peer, lanes);
    if (deadline != Deadline::max()) deadline += Clock::now() - begin;
    for (const auto& [peer, lanes] : wiring.receive) accept(wiring, peer, lanes, deadline);
    const auto stop = [this] { return interrupted_.load(); };
    for (const auto& [peer, lanes] : wiring.send)
      if (!hub_->wait_taken(meeting_to(wiring, peer), deadline, stop)) fail(peer);
  }

  void wait(Deadline deadline) override {
    bell_->wait(deadline);
    if (interrupted_) throw Error(ErrorCode::kInterrupted, "interrupted", label_);
  }
  void wake() override { bell_->ring(); }

  SendChannel& sender(int peer) override {
    KERF_CHECK(senders_.contains(peer), "{} has no channel to worker {}", label_, peer);
    return *senders_.at(peer);
  }
  ReceiveChannel& receiver(int peer) override {
    KERF_CHECK(receivers_.contains(peer), "{} has no channel from worker {}", label_, peer);
    return *receivers_.at(peer);
  }

  void interrupt() override {
    interrupted_ = true;
    bell_->ring();
    hub_->wake();
    const std::lock_guard lock(mutex_);
    for (const auto& [peer, channel] : senders_) channel->pipe().interrupt_sender();
    for (const auto& [peer, channel] : receivers_) channel->pipe().interrupt_receiver();
  }

  bool drain(Deadline deadline) override {
    return std::ranges::all_of(
        senders_, [&](const auto& entry) { return entry.second->pipe().drain(deadline); });
  }

  size_t slot_bytes() const override { return 0; }

  ChannelCounters counters() const override {
    ChannelCounters sum;
    for (const auto& [peer, channel] : senders_) sum += channel->counters();
    for (const auto& [peer, channel] : receivers_) sum += channel->counters();
    return sum;
  }

 private:
  std::string address_of(const Wiring& wiring, int peer) const {
    KERF_CHECK(wiring.addresses.contains(peer), "the wiring has no address of worker {}", peer);
    return wiring.addresses.at(peer);
  }
  InprocMeeting meeting_to(const Wiring& wiring, int peer) const {
    return {address_, address_of(wiring, peer), wiring.epoch, wiring.token};
  }
  InprocMeeting meeting_from(const Wiring& wiring, int peer) const {
    return {address_of(wiring, peer), address_, wiring.epoch, wiring.token};
  }

  void offer(const Wiring& wiring, int peer, const std::vector<Lane>& lanes) {
    auto pipe = std::make_shared<InprocPipe>(lanes, device_, bell_);
    hub_->offer(meeting_to(wiring, peer), pipe);
    const std::lock_guard lock(mutex_);
    if (interrupted_) pipe->interrupt_sender();
    senders_.emplace(peer, std::make_unique<InprocSender>(std::move(pipe)));
  }

  void accept(const Wiring& wiring, int peer, const std::vector<Lane>& lanes, Deadline deadline) {
    const InprocMeeting meeting = meeting_from(wiring, peer);
    auto pipe = hub_->find(meeting, deadline, [this] { return interrupted_.load(); });
    if (pipe == nullptr) fail(peer);
    if (pipe->lanes() != lanes)
      throw Error(ErrorCode::kProtocol,
                  kerf::format("worker {} offers other lanes than expected", peer), label_);
    pipe->set_receiver(device_, bell_);
    hub_->take(meeting);
    const std::lock_guard lock(mutex_);
    if (interrupted_) pipe->interrupt_receiver();
    receivers_.emplace(peer, std::make_unique<InprocReceiver>(std::move(pipe)));
  }

  [[noreturn]] void fail(int peer) const {
    if (interrupted_) throw Error(ErrorCode::kInterrupted, "interrupted", label_);
    throw Error(ErrorCode::kTimeout,
                kerf::format("worker {} did not open its channel in time", peer), label_);
  }

  const std::string label_;
  const std::shared_ptr<Device> device_;
  const std::shared_ptr<InprocHub> hub_;  // shared by all endpoints of the run
  const std::string address_;
  const std::shared_ptr<InprocBell> bell_ = std::make_shared<InprocBell>();
  std::atomic<bool> interrupted_{false};
  std::mutex mutex_;  // guards the two tables against interrupt() while open() fills them
  std::map<int, std::unique_ptr<InprocSender>> senders_;
  std::map<int, std::unique_ptr<InprocReceiver>> receivers_;
};

}  // namespace

std::unique_ptr<Endpoint> make_inproc_endpoint(const std::string& label,
                                               std::shared_ptr<Device> device,
                                               const std::shared_ptr<InprocHub>& hub) {
  KERF_CHECK(hub != nullptr, "inproc endpoints need a hub to meet at: make_inproc_hub()");
  return std::make_unique<InprocEndpoint>(label, std::move(device), hub);
}

}  // namespace kerf::runtime
