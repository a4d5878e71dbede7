#include "runtime/link/data_thread.h"

#include <signal.h>

#include <utility>

namespace kerf::runtime {
namespace {

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
    : packets_(packets), round_(std::move(round)) {
  poll_.add(stop_.descriptor(), EPOLLIN);
  poll_.add(timer_.descriptor(), EPOLLIN);
  poll_.add(packets_, 0);
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
    const int count = ::epoll_wait(poll_.descriptor(), &event, 1, -1);
    if (stop.stop_requested()) return;
    if (count > 0) round_();
  }
}

void DataThread::begin_round() {
  wake_ = Clock::time_point::max();
  timer_.take();
}

void DataThread::wake_by(Clock::time_point when) {
  if (wake_ <= when) return;
  wake_ = when;
  timer_.set(when);
}

void DataThread::forget_time() {
  wake_ = Clock::time_point::max();
  timer_.clear();
}

void DataThread::listen(bool on) {
  if (listens_ == on) return;
  poll_.change(packets_, on ? uint32_t{EPOLLIN} : 0U);
  listens_ = on;
}

}  // namespace kerf::runtime
