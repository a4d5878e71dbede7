#include "tests/support/async_world.h"

#include <chrono>
#include <thread>

namespace kerf::tests {

AsyncDelays::Impatience::Impatience(AsyncDelays& delays) : delays_(delays) {
  const std::lock_guard lock(delays_.mutex_);
  ++delays_.waiting_;
  delays_.waits_.notify_all();
}

AsyncDelays::Impatience::~Impatience() {
  const std::lock_guard lock(delays_.mutex_);
  --delays_.waiting_;
}

std::mt19937_64 AsyncDelays::random(uint64_t stream) const {
  const uint64_t seed = seed_.value_or(0);
  std::seed_seq both{seed, seed >> 32, stream};
  return std::mt19937_64(both);
}

void AsyncDelays::delay(std::mt19937_64& random) {
  constexpr std::chrono::milliseconds kLongest{2};
  constexpr int64_t kNap = 100;  // microseconds
  if (!seed_) return;
  const uint64_t choice = random() % 8;
  if (choice == 0) {
    std::unique_lock lock(mutex_);
    waits_.wait_for(lock, kLongest, [this] { return waiting_ > 0; });
  } else if (choice == 1) {
    const auto nap = static_cast<int64_t>(random() % (kNap + 1));
    std::this_thread::sleep_for(std::chrono::microseconds(nap));
  }
}

void AsyncWorld::touch(const void* data, size_t bytes, bool written) {
  if (bytes == 0) return;
  auto* begin = static_cast<std::byte*>(const_cast<void*>(data));
  order_.host_touches(begin, bytes, written);
}

}  // namespace kerf::tests
