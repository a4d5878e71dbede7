#include "tests/support/async_order.h"

#include <unistd.h>

#include <utility>

#include "runtime/error.h"

namespace kerf::tests {

Lane AsyncOrder::add_actor(const char* kind, size_t number) {
  actors_.push_back({format("{} {}", kind, number), {}});
  return actors_.size() - 1;
}

// The thread that calls. By the kernel's number: those of std::thread are soon used again, and the
// next thread would have seen what the last one saw.
Lane AsyncOrder::host() {
  const pid_t thread = ::gettid();
  const auto known = hosts_.find(thread);
  if (known != hosts_.end()) return known->second;
  return hosts_[thread] = add_actor("host thread", hosts_.size());
}

Lane AsyncOrder::add_stream() {
  const std::lock_guard lock(mutex_);
  return add_actor("stream", streams_++);
}

void AsyncOrder::enqueue(Lane stream) {
  const std::lock_guard lock(mutex_);
  const Clock& enqueuing = actors_[host()].clock;
  Clock& clock = actors_[stream].clock;
  clock.join(enqueuing);
  clock.tick(stream);
}

AsyncPlace AsyncOrder::touch(Lane stream, std::byte* data, size_t bytes, bool written) {
  const std::lock_guard lock(mutex_);
  return touch_locked(stream, data, bytes, written);
}

void AsyncOrder::join(Lane lane, size_t wait, const Clock& recorded) {
  Clock& clock = actors_[lane].clock;
  if (clock.includes(recorded)) needless_.insert(wait);
  if (!dropped_.contains(wait)) clock.join(recorded);
}

size_t AsyncOrder::number_wait() {
  ThreadWaits& mine = waits_of_[host()];
  if (mine.dropped.contains(mine.numbers.size())) dropped_.insert(waits_);
  mine.numbers.push_back(waits_);
  return waits_++;
}

size_t AsyncOrder::my_waits() {
  const std::lock_guard lock(mutex_);
  return waits_of_[host()].numbers.size();
}

void AsyncOrder::drop_my_wait(size_t wait) {
  const std::lock_guard lock(mutex_);
  waits_of_[host()].dropped.insert(wait);
}

bool AsyncOrder::my_wait_was_needless(size_t wait) {
  const std::lock_guard lock(mutex_);
  return needless_.contains(waits_of_[host()].numbers.at(wait));
}

void AsyncOrder::stream_waits(Lane stream, const Clock& recorded) {
  const std::lock_guard lock(mutex_);
  join(stream, number_wait(), recorded);
}

Clock AsyncOrder::clock(Lane stream) const {
  const std::lock_guard lock(mutex_);
  return actors_[stream].clock;
}

size_t AsyncOrder::begin_wait() {
  const std::lock_guard lock(mutex_);
  return number_wait();
}

void AsyncOrder::end_wait(size_t wait, const Clock& recorded) {
  const std::lock_guard lock(mutex_);
  join(host(), wait, recorded);
}

void AsyncOrder::host_sees(const Clock& clock) {
  const std::lock_guard lock(mutex_);
  actors_[host()].clock.join(clock);
}

Clock AsyncOrder::host_clock() {
  const std::lock_guard lock(mutex_);
  return actors_[host()].clock;
}

void AsyncOrder::host_touches(std::byte* data, size_t bytes, bool written) {
  const std::lock_guard lock(mutex_);
  const Lane lane = host();
  actors_[lane].clock.tick(lane);
  touch_locked(lane, data, bytes, written);
}

void AsyncOrder::add(AsyncBlock block) {
  const std::lock_guard lock(mutex_);
  std::byte* begin = block.begin;
  const size_t bytes = block.bytes;
  memory_.emplace(begin, Owned{std::move(block), allocations_++, false, History(bytes)});
}

void AsyncOrder::free(std::byte* begin) noexcept {
  Pages pages;  // given back without the lock
  const std::lock_guard lock(mutex_);
  const auto found = memory_.find(begin);
  Owned& owned = found->second;
  const Actor& freeing = actors_[host()];
  for (const Access& access : owned.history.outside(freeing.clock))
    reports_.push_back(format("allocation {}: freed by {}, which has not waited for {}",
                              owned.number, freeing.name, text(access)));
  pages = std::move(owned.block.real);
  owned.freed = true;
  owned.history = History(0);
  if (owned.block.pinned) memory_.erase(found);  // its addresses go back to the host
}

std::vector<std::string> AsyncOrder::reports() const {
  const std::lock_guard lock(mutex_);
  return reports_;
}

size_t AsyncOrder::waits() const {
  const std::lock_guard lock(mutex_);
  return waits_;
}

void AsyncOrder::drop_wait(size_t wait) {
  const std::lock_guard lock(mutex_);
  dropped_.insert(wait);
}

AsyncOrder::Owned* AsyncOrder::find(std::byte* data) {
  auto behind = memory_.upper_bound(data);
  if (behind == memory_.begin()) return nullptr;
  Owned& owned = std::prev(behind)->second;
  return static_cast<size_t>(data - owned.block.begin) < owned.block.reserved ? &owned : nullptr;
}

AsyncPlace AsyncOrder::touch_locked(Lane lane, std::byte* data, size_t bytes, bool written) {
  Owned* owned = find(data);
  if (owned == nullptr) return {data, {}, true};
  const AsyncBlock& block = owned->block;
  const Clock& clock = actors_[lane].clock;
  const auto begin = static_cast<size_t>(data - block.begin);
  const Access access{lane, clock.time(lane), begin, begin + bytes, written};
  if (owned->freed) {
    reports_.push_back(format("allocation {}: freed before {}", owned->number, text(access)));
    return {nullptr, {}, false};
  }
  if (begin > block.bytes || bytes > block.bytes - begin) {
    reports_.push_back(format("allocation {}: has {} bytes, too few for {}", owned->number,
                              block.bytes, text(access)));
    return {nullptr, {}, false};
  }
  for (const Access& earlier : owned->history.add(access, clock))
    reports_.push_back(format("allocation {}: {} is not ordered after {}", owned->number,
                              text(access), text(earlier)));
  return {block.real.get() + begin, block.real, true};
}

std::string AsyncOrder::text(const Access& access) const {
  return format("{} of [{}, {}) by operation {} of {}", access.written ? "write" : "read",
                access.begin, access.end, access.time, actors_[access.lane].name);
}

}  // namespace kerf::tests
