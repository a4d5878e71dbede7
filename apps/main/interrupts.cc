#include "apps/main/interrupts.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <ctime>
#include <string_view>

#include "runtime/error.h"

namespace kerf::apps {

namespace {

// A signal handler has nowhere else to look.
std::atomic<runtime::Interrupt*> request_of_this_run{nullptr};
static_assert(std::atomic<runtime::Interrupt*>::is_always_lock_free);
std::atomic<int64_t> first_signal_at{0};  // milliseconds
static_assert(std::atomic<int64_t>::is_always_lock_free);

// Whatever may be called in a signal handler.
int64_t now_in_milliseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

extern "C" void on_signal(int signal) {
  runtime::Interrupt* request = request_of_this_run.load();
  if (signal == SIGALRM) {
    if (request != nullptr) request->raise();
    return;
  }
  if (request != nullptr && !request->asked()) {
    first_signal_at = now_in_milliseconds();
    request->ask();
    if (!request->raised()) ::alarm(kGraceSeconds);
    return;
  }
  if (now_in_milliseconds() - first_signal_at < kOneSignal.count()) return;
  constexpr std::string_view kText = "error: interrupted twice\n";
  const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
  static_cast<void>(written);
  ::_exit(exit_code(ErrorCode::kInterrupted));
}

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGALRM};
std::array<struct sigaction, kSignals.size()> before_this_run;

}  // namespace

Interrupts::Interrupts() {
  request_of_this_run = request_.get();
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction& before = before_this_run[i];
    ::sigaction(kSignals[i], &action, &before);
    if (kSignals[i] == SIGHUP && before.sa_handler == SIG_IGN)  // as nohup(1) asks
      ::sigaction(SIGHUP, &before, nullptr);
  }
}

Interrupts::~Interrupts() {
  ::alarm(0);
  for (size_t i = 0; i < kSignals.size(); ++i)
    ::sigaction(kSignals[i], &before_this_run[i], nullptr);
  request_of_this_run = nullptr;
}

}  // namespace kerf::apps
