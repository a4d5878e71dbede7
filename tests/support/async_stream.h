// Streams and events of the device "async-test" (async_device.h).
//
// Made by the device. A stream or an event is used by one thread at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "runtime/device.h"
#include "tests/support/async_world.h"

namespace kerf::tests {

// What work threw, made where it is caught; thrown on to one.
class AsyncFailure {
 public:
  bool taken() const;
  void throw_once();

 private:
  mutable std::mutex mutex_;
  std::exception_ptr thrown_ = std::current_exception();  // null once it is thrown on
};

// The point in a stream where it was once recorded.
class AsyncMark {
 public:
  explicit AsyncMark(Clock clock) : clock_(std::move(clock)) {}
  void reach(std::shared_ptr<AsyncFailure> failure);  // by the stream
  bool reached() const;
  void wait() const;
  void throw_failure() const;  // of work before it, if it is reached
  const Clock& clock() const { return clock_; }

 private:
  const Clock clock_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool reached_ = false;
  std::shared_ptr<AsyncFailure> failure_;
};

class AsyncEvent final : public runtime::Event {
 public:
  explicit AsyncEvent(std::shared_ptr<AsyncWorld> world) : world_(std::move(world)) {}
  bool ready() const override;
  void wait() const override;

  bool is_of(const AsyncWorld& world) const { return world_.get() == &world; }
  void record(std::shared_ptr<AsyncMark> mark);
  std::shared_ptr<AsyncMark> last() const;  // null before the first

 private:
  const std::shared_ptr<AsyncWorld> world_;
  mutable std::mutex mutex_;
  std::shared_ptr<AsyncMark> last_;
};

class AsyncStream final : public runtime::Stream {
 public:
  AsyncStream(std::shared_ptr<AsyncWorld> world, std::function<void()> begin_thread);
  ~AsyncStream() override;
  AsyncStream(const AsyncStream&) = delete;
  AsyncStream& operator=(const AsyncStream&) = delete;

  void copy(void* to, const void* from, size_t bytes) override;
  void fill_zero(void* to, size_t bytes) override;
  void launch(runtime::HostWork& work) override;
  void record(runtime::Event& event) override;
  void wait(const runtime::Event& event) override;
  void synchronize() override;
  // Writes the time when it comes to it.
  void tell_time(std::shared_ptr<std::atomic<int64_t>> place);

 private:
  using Item = std::function<void()>;

  void push(Item item);
  std::shared_ptr<AsyncMark> push_mark();
  void run(const std::stop_token& stop, const std::function<void()>& begin_thread);
  void run_item(const Item& item);
  std::shared_ptr<AsyncFailure> failure() const;
  void throw_failure() const;

  const std::shared_ptr<AsyncWorld> world_;
  const Lane lane_;
  std::mt19937_64 random_;  // of the thread
  mutable std::mutex mutex_;
  std::condition_variable_any pushed_;
  std::deque<Item> queue_;                 // guarded by mutex_
  std::shared_ptr<AsyncFailure> failure_;  // guarded by mutex_
  std::jthread thread_;                    // the last: it uses all the others
};

// Says nothing of order: whoever reads the moments has waited for the stream.
class AsyncTimeline final : public runtime::Timeline {
 public:
  explicit AsyncTimeline(AsyncStream& stream) : stream_(stream) {}
  void begin() override { told_.clear(); }
  void mark() override;
  std::span<const int64_t> moments() override;

 private:
  AsyncStream& stream_;
  std::vector<std::shared_ptr<std::atomic<int64_t>>> told_;
  std::vector<int64_t> moments_;
};

}  // namespace kerf::tests
