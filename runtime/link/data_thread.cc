#include "runtime/link/data_thread.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/error.h"

namespace kerf::runtime {
namespace {

int opened(int descriptor, const char* what) {
  if (descriptor < 0)
    throw Error(ErrorCode::kUnavailable, kerf::format("no {}: {}", what, std::strerror(errno)));
  return descriptor;
}

void watch(int poll, int operation, int descriptor, uint32_t events) {
  epoll_event event{};
  event.events = events;
  KERF_CHECK(::epoll_ctl(poll, operation, descriptor, &event) == 0, "epoll_ctl: {}",
             std::strerror(errno));
}

// A thread that begins while this lives gets no signals: whoever has a handler reckons with its own
// threads in poll().
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

DataThread::DataThread(int packets, std::function<void()> round)
    : packets_(packets),
      round_(std::move(round)),
      timer_(opened(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd")),
      poll_(opened(::epoll_create1(EPOLL_CLOEXEC), "epoll")) {
  watch(poll_.number(), EPOLL_CTL_ADD, stop_.descriptor(), EPOLLIN);
  watch(poll_.number(), EPOLL_CTL_ADD, timer_.number(), EPOLLIN);
  watch(poll_.number(), EPOLL_CTL_ADD, packets_, 0);
  const SignalsBlocked blocked;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void DataThread::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  stop_.signal();
  thread_.join();
}

void DataThread::run(const std::stop_token& stop) {
  while (true) {
    epoll_event event{};
    const int count = ::epoll_wait(poll_.number(), &event, 1, -1);
    if (stop.stop_requested()) return;
    if (count > 0) round_();
  }
}

void DataThread::begin_round() {
  wake_ = Clock::time_point::max();
  uint64_t expirations = 0;
  [[maybe_unused]] const auto read = ::read(timer_.number(), &expirations, sizeof expirations);
}

void DataThread::wake_by(Clock::time_point when) {
  if (wake_ <= when) return;
  wake_ = when;
  // A time in the past is now, but zero would be never.
  set_timer(std::max<int64_t>(
      1, std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count()));
}

void DataThread::forget_time() {
  wake_ = Clock::time_point::max();
  set_timer(0);
}

// Clock is CLOCK_MONOTONIC.
void DataThread::set_timer(int64_t ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  itimerspec time{};
  time.it_value.tv_sec = ns / kSecond;
  time.it_value.tv_nsec = ns % kSecond;
  KERF_CHECK(::timerfd_settime(timer_.number(), TFD_TIMER_ABSTIME, &time, nullptr) == 0);
}

void DataThread::listen(bool on) {
  if (listens_ == on) return;
  watch(poll_.number(), EPOLL_CTL_MOD, packets_, on ? uint32_t{EPOLLIN} : 0U);
  listens_ = on;
}

}  // namespace kerf::runtime
