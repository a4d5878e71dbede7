#include "runtime/inproc_control.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <vector>

#include "runtime/error.h"
#include "runtime/event_fd.h"

namespace kerf::runtime {

// Peers are numbered by first message: `peer` is -1 until then.
struct InprocControl::State {
  // Many threads put, one takes. The event is signalled only for a taker that found nothing.
  template <class Item>
  class Queue {
   public:
    void put(Item item) {
      bool wake = false;
      {
        const std::lock_guard lock(mutex_);
        items_.push_back(std::move(item));
        wake = waiting_;
        waiting_ = false;
      }
      if (wake) event_.signal();
    }

    void wake() { event_.signal(); }

    // Empty when the deadline passed, or woken without an item.
    std::optional<Item> take(const std::vector<int>& watched, Deadline deadline) {
      while (true) {
        if (auto item = pop()) return item;
        if (Clock::now() >= deadline) return {};
        std::vector<int> descriptors = watched;
        descriptors.push_back(event_.descriptor());
        poll_readable(descriptors, deadline);
        const bool signalled = event_.taken();
        if (auto item = pop()) return item;
        if (signalled || !watched.empty()) return {};
      }
    }

   private:
    std::optional<Item> pop() {
      const std::lock_guard lock(mutex_);
      waiting_ = items_.empty();
      if (items_.empty()) return {};
      std::optional<Item> item(std::move(items_.front()));
      items_.pop_front();
      return item;
    }

    std::mutex mutex_;
    std::deque<Item> items_;
    bool waiting_ = false;
    EventFd event_;
  };

  struct Line {
    Queue<ControlMessage> to_client;
    int peer = -1;
    bool forgotten = false;
    bool fenced = false;
  };

  std::mutex mutex;
  std::vector<std::shared_ptr<Line>> peers;
  ControlCounters counters;
  Queue<ControlServer::Incoming> to_server;
  std::atomic<bool> closed{false};  // the server is gone

  void deliver(const std::shared_ptr<Line>& line, ControlMessage message) {
    const std::lock_guard lock(mutex);
    if (line->peer < 0 && message.type == ControlType::kRegister) {
      line->peer = static_cast<int>(peers.size());
      peers.push_back(line);
    }
    if (line->peer < 0 || line->forgotten) {
      ++(line->fenced ? counters.fenced : counters.dropped);
      return;
    }
    ++counters.received;
    to_server.put({.peer = line->peer, .message = std::move(message), .disconnected = false});
  }

  void close() {
    closed = true;
    const std::lock_guard lock(mutex);
    for (const auto& line : peers) line->to_client.wake();
  }

  void disconnect(const std::shared_ptr<Line>& line) {
    const std::lock_guard lock(mutex);
    if (line->peer >= 0 && !line->forgotten)
      to_server.put({.peer = line->peer, .message = {}, .disconnected = true});
  }
};

class InprocControlServer final : public ControlServer {
 public:
  explicit InprocControlServer(std::shared_ptr<InprocControl::State> state)
      : state_(std::move(state)) {}

  ~InprocControlServer() override { state_->close(); }

  std::string address() const override { return "inproc"; }

  void send(int peer, ControlMessage message) override {
    check_size(message);
    const std::lock_guard lock(state_->mutex);
    if (peer < 0 || peer >= static_cast<int>(state_->peers.size())) return;
    auto& line = *state_->peers[static_cast<size_t>(peer)];
    if (line.forgotten) return;
    ++state_->counters.sent;
    line.to_client.put(std::move(message));
  }

  std::optional<Incoming> receive(Deadline deadline) override {
    return state_->to_server.take(watched_, deadline);
  }

  int64_t unacknowledged_answers(int) const override { return 0; }  // a queue keeps none

  void forget(int peer) override {
    const std::lock_guard lock(state_->mutex);
    if (peer >= 0 && peer < static_cast<int>(state_->peers.size()))
      state_->peers[static_cast<size_t>(peer)]->forgotten = true;
  }

  void fence(int peer) override {
    forget(peer);
    const std::lock_guard lock(state_->mutex);
    if (peer >= 0 && peer < static_cast<int>(state_->peers.size()))
      state_->peers[static_cast<size_t>(peer)]->fenced = true;
  }

  void watch(int descriptor) override { watched_.push_back(descriptor); }
  void unwatch(int descriptor) override { std::erase(watched_, descriptor); }
  void wake() override { state_->to_server.wake(); }

  ControlCounters counters() const override {
    const std::lock_guard lock(state_->mutex);
    return state_->counters;
  }

 private:
  std::shared_ptr<InprocControl::State> state_;
  std::vector<int> watched_;
};

class InprocControlClient final : public ControlClient {
 public:
  explicit InprocControlClient(std::shared_ptr<InprocControl::State> state)
      : state_(std::move(state)) {}
  ~InprocControlClient() override { state_->disconnect(line_); }

  void send(ControlMessage message) override {
    check_size(message);
    ++counters_.sent;
    state_->deliver(line_, std::move(message));
  }

  std::optional<ControlMessage> receive(Deadline deadline) override {
    auto message = line_->to_client.take({}, state_->closed ? Clock::time_point{} : deadline);
    if (message)
      ++counters_.received;
    else if (state_->closed)
      throw Error(ErrorCode::kLost, "the scheduler of this process is gone");
    return message;
  }

  void wake() override { line_->to_client.wake(); }
  bool flush(Deadline) override { return true; }
  ControlCounters counters() const override { return counters_; }

 private:
  std::shared_ptr<InprocControl::State> state_;
  std::shared_ptr<InprocControl::State::Line> line_ =
      std::make_shared<InprocControl::State::Line>();
  ControlCounters counters_;
};

InprocControl::InprocControl() : state_(std::make_shared<State>()) {}
InprocControl::~InprocControl() = default;

std::unique_ptr<ControlServer> InprocControl::server() {
  return std::make_unique<InprocControlServer>(state_);
}

std::unique_ptr<ControlClient> InprocControl::connect() {
  return std::make_unique<InprocControlClient>(state_);
}

}  // namespace kerf::runtime
