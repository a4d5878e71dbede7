#include "apps/main/interrupts.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string_view>

#include "runtime/error.h"

namespace kerf::apps {

namespace {

// A signal handler has nowhere else to look.
std::atomic<runtime::Interrupt*> request_of_this_run{nullptr};
static_assert(std::atomic<runtime::Interrupt*>::is_always_lock_free);

extern "C" void on_signal(int signal) {
  runtime::Interrupt* request = request_of_this_run.load();
  if (signal == SIGALRM) {
    if (request != nullptr) request->raise();
    return;
  }
  if (request != nullptr && !request->asked()) {
    request->ask();
    if (!request->raised()) ::alarm(kGraceSeconds);
    return;
  }
  constexpr std::string_view kText = "error: interrupted twice\n";
  const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
  static_cast<void>(written);
  ::_exit(exit_code(ErrorCode::kInterrupted));
}

void install(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGALRM, &action, nullptr);
}

}  // namespace

Interrupts::Interrupts() {
  request_of_this_run = request_.get();
  install(on_signal);
}

Interrupts::~Interrupts() {
  ::alarm(0);
  install(SIG_DFL);
  request_of_this_run = nullptr;
}

}  // namespace kerf::apps
