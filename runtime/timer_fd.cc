#include "runtime/timer_fd.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/error.h"

namespace kerf::runtime {
namespace {

// Clock is CLOCK_MONOTONIC; zero: never.
void set_time(int timer, int64_t ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  itimerspec time{};
  time.it_value.tv_sec = ns / kSecond;
  time.it_value.tv_nsec = ns % kSecond;
  KERF_CHECK(::timerfd_settime(timer, TFD_TIMER_ABSTIME, &time, nullptr) == 0);
}

}  // namespace

TimerFd::TimerFd() : file_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
  if (file_.number() < 0)
    throw Error(ErrorCode::kUnavailable, kerf::format("no timerfd: {}", std::strerror(errno)));
}

void TimerFd::set(Clock::time_point when) const {
  // A time in the past is now.
  set_time(file_.number(),
           std::max<int64_t>(1, std::chrono::nanoseconds(when.time_since_epoch()).count()));
}

void TimerFd::clear() const { set_time(file_.number(), 0); }

void TimerFd::take() const {
  uint64_t expirations = 0;
  [[maybe_unused]] const auto read = ::read(file_.number(), &expirations, sizeof expirations);
}

}  // namespace kerf::runtime
