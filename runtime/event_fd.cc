#include "runtime/event_fd.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/error.h"

namespace kerf::runtime {

EventFd::EventFd() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0)
    throw Error(ErrorCode::kUnavailable, kerf::format("no eventfd: {}", std::strerror(errno)));
}

EventFd::~EventFd() { ::close(descriptor_); }

void EventFd::signal() noexcept {
  const int saved = errno;  // a signal handler must leave it alone
  const uint64_t one = 1;
  // It fails only when the counter is full, and then poll() wakes anyway.
  [[maybe_unused]] const auto written = ::write(descriptor_, &one, sizeof one);
  errno = saved;
}

bool EventFd::taken() noexcept {
  uint64_t count = 0;
  return ::read(descriptor_, &count, sizeof count) == sizeof count;
}

void poll_readable(const std::vector<int>& descriptors, Deadline deadline) {
  std::vector<pollfd> polled;
  polled.reserve(descriptors.size());
  for (const int descriptor : descriptors) polled.push_back({descriptor, POLLIN, 0});
  ::poll(polled.data(), polled.size(), milliseconds_left(deadline));
}

}  // namespace kerf::runtime
