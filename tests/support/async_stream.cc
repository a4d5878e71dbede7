#include "tests/support/async_stream.h"

#include <cstring>
#include <utility>
#include <vector>

#include "runtime/error.h"
#include "runtime/host_work.h"
#include "runtime/time.h"

namespace kerf::tests {

namespace {

// Tells work where the processor finds its memory.
class Translation final : public runtime::MemoryVisitor {
 public:
  Translation(AsyncOrder& order, Lane stream) : order_(order), stream_(stream) {}
  bool usable() const { return usable_; }
  std::vector<Pages> take_kept() { return std::move(kept_); }

 protected:
  std::byte* find(std::byte* data, size_t bytes, bool written) override {
    AsyncPlace place = order_.touch(stream_, data, bytes, written);
    usable_ = usable_ && place.usable;
    if (place.kept) kept_.push_back(std::move(place.kept));
    return place.real;
  }

 private:
  AsyncOrder& order_;
  const Lane stream_;
  bool usable_ = true;
  std::vector<Pages> kept_;
};

// The host waits until the stream gets there.
void await(AsyncWorld& world, const AsyncMark& mark) {
  const size_t wait = world.order().begin_wait();
  const AsyncDelays::Impatience impatience(world.delays());
  mark.wait();
  world.order().end_wait(wait, mark.clock());
}

Pages copy_of(const std::byte* from, size_t bytes) {
  Pages copy(new std::byte[bytes], std::default_delete<std::byte[]>());
  std::memcpy(copy.get(), from, bytes);
  return copy;
}

}  // namespace

bool AsyncFailure::taken() const {
  const std::lock_guard lock(mutex_);
  return thrown_ == nullptr;
}

void AsyncFailure::throw_once() {
  std::exception_ptr thrown;
  {
    const std::lock_guard lock(mutex_);
    thrown = std::exchange(thrown_, nullptr);
  }
  if (thrown) std::rethrow_exception(thrown);
}

void AsyncMark::reach(std::shared_ptr<AsyncFailure> failure) {
  const std::lock_guard lock(mutex_);
  reached_ = true;
  failure_ = std::move(failure);
  changed_.notify_all();
}

bool AsyncMark::reached() const {
  const std::lock_guard lock(mutex_);
  return reached_;
}

void AsyncMark::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return reached_; });
}

void AsyncMark::throw_failure() const {
  std::shared_ptr<AsyncFailure> failure;
  {
    const std::lock_guard lock(mutex_);
    failure = failure_;
  }
  if (failure) failure->throw_once();
}

bool AsyncEvent::ready() const {
  const auto mark = last();
  if (!mark) return true;
  if (!mark->reached()) return false;
  world_->order().host_sees(mark->clock());
  return true;
}

void AsyncEvent::wait() const {
  const auto mark = last();
  if (!mark) return world_->order().end_wait(world_->order().begin_wait(), {});
  await(*world_, *mark);
  mark->throw_failure();
}

void AsyncEvent::record(std::shared_ptr<AsyncMark> mark) {
  const std::lock_guard lock(mutex_);
  last_ = std::move(mark);
}

std::shared_ptr<AsyncMark> AsyncEvent::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

AsyncStream::AsyncStream(std::shared_ptr<AsyncWorld> world, std::function<void()> begin_thread)
    : world_(std::move(world)),
      lane_(world_->order().add_stream()),
      random_(world_->delays().random(lane_)),
      thread_([this, begin_thread = std::move(begin_thread)](const std::stop_token& stop) {
        run(stop, begin_thread);
      }) {}

AsyncStream::~AsyncStream() {
  const AsyncDelays::Impatience impatience(world_->delays());
  thread_.request_stop();
  thread_.join();
  world_->order().host_sees(world_->order().clock(lane_));
}

void AsyncStream::copy(void* to, const void* from, size_t bytes) {
  throw_failure();
  if (bytes == 0) return;
  AsyncOrder& order = world_->order();
  order.enqueue(lane_);
  auto* source = static_cast<std::byte*>(const_cast<void*>(from));
  const AsyncPlace read = order.touch(lane_, source, bytes, false);
  const AsyncPlace written = order.touch(lane_, static_cast<std::byte*>(to), bytes, true);
  if (!read.usable || !written.usable) return;
  Pages kept = read.kept ? read.kept : copy_of(read.real, bytes);
  const std::byte* real = read.kept ? read.real : kept.get();
  push([=, kept = std::move(kept)] { std::memcpy(written.real, real, bytes); });
}

void AsyncStream::fill_zero(void* to, size_t bytes) {
  throw_failure();
  if (bytes == 0) return;
  world_->order().enqueue(lane_);
  const AsyncPlace place = world_->order().touch(lane_, static_cast<std::byte*>(to), bytes, true);
  if (place.usable) push([place, bytes] { std::memset(place.real, 0, bytes); });
}

void AsyncStream::launch(runtime::HostWork& work) {
  throw_failure();
  std::shared_ptr<runtime::QueuedWork> queued = work.queued();
  world_->order().enqueue(lane_);
  Translation translation(world_->order(), lane_);
  queued->show(translation);
  if (!translation.usable()) return;
  push([queued = std::move(queued), kept = translation.take_kept()] { queued->run(); });
}

void AsyncStream::record(runtime::Event& event) {
  auto* own = dynamic_cast<AsyncEvent*>(&event);
  KERF_CHECK(own != nullptr && own->is_of(*world_),
             "async-test records events of its own world only");
  world_->order().enqueue(lane_);
  own->record(push_mark());
}

void AsyncStream::wait(const runtime::Event& event) {
  const auto* own = dynamic_cast<const AsyncEvent*>(&event);
  if (own == nullptr) return event.wait();
  KERF_CHECK(own->is_of(*world_), "async-test awaits events of its own world only");
  const auto mark = own->last();
  world_->order().enqueue(lane_);
  world_->order().stream_waits(lane_, mark ? mark->clock() : Clock());
  if (mark) push([mark] { mark->wait(); });
}

void AsyncStream::synchronize() {
  await(*world_, *push_mark());
  throw_failure();
}

void AsyncStream::tell_time(std::shared_ptr<std::atomic<int64_t>> place) {
  push([place = std::move(place)] { *place = runtime::now_ns(); });
}

void AsyncStream::push(Item item) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(item));
  pushed_.notify_one();
}

std::shared_ptr<AsyncMark> AsyncStream::push_mark() {
  auto mark = std::make_shared<AsyncMark>(world_->order().clock(lane_));
  push([this, mark] { mark->reach(failure()); });
  return mark;
}

void AsyncStream::run(const std::stop_token& stop, const std::function<void()>& begin_thread) {
  if (begin_thread) begin_thread();
  for (;;) {
    Item item;
    {
      std::unique_lock lock(mutex_);
      // True while there is work, even if the end is asked for.
      if (!pushed_.wait(lock, stop, [this] { return !queue_.empty(); })) return;
      item = std::move(queue_.front());
      queue_.pop_front();
    }
    world_->delays().delay(random_);
    run_item(item);
  }
}

void AsyncStream::run_item(const Item& item) {
  try {
    item();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_ || failure_->taken()) failure_ = std::make_shared<AsyncFailure>();
  }
}

std::shared_ptr<AsyncFailure> AsyncStream::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void AsyncStream::throw_failure() const {
  if (const auto thrown = failure()) thrown->throw_once();
}

void AsyncTimeline::mark() {
  told_.push_back(std::make_shared<std::atomic<int64_t>>(0));
  stream_.tell_time(told_.back());
}

std::span<const int64_t> AsyncTimeline::moments() {
  moments_.assign(told_.size(), 0);
  for (size_t i = 0; i < told_.size(); ++i) moments_[i] = *told_[i];
  return moments_;
}

}  // namespace kerf::tests
