#include "runtime/keeper.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "runtime/process.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

// What a kept worker ends with when another is to wait for the scheduler that it lost.
constexpr int kBeginAgain = 75;
// Likewise behind the loss of its device, of which a new process may have a sound context.
constexpr int kDeviceGone = 76;
constexpr auto kShortLife = 2s;
constexpr int kShortLives = 10;  // in a row
constexpr auto kBreath = 100ms;  // behind each of those but the first

void tell(const std::string& what) {
  std::fprintf(stderr, "%s keeper: %s\n", program_name().c_str(), what.c_str());
}

// The first process of a container has no default action for these; the worker dies with it.
extern "C" void on_end(int signal) { ::_exit(128 + signal); }

void take_signals() {
  ::signal(SIGCHLD, SIG_DFL);  // where it is ignored nobody is told how a child ended
  for (const int signal : {SIGTERM, SIGINT, SIGHUP})
    if (::signal(signal, on_end) == SIG_IGN) ::signal(signal, SIG_IGN);
}

// How it ended, where another is to take its place.
std::string why_another(const Process& worker, const std::string& end) {
  if (!worker.exit_code())
    return kerf::format("the worker (pid {}) ended by {}", worker.pid(), end);
  return worker.exit_code() == kDeviceGone ? "the worker lost its device"
                                           : "the worker lost its scheduler";
}

}  // namespace

int keep_worker(int argc, char** argv) {
  std::vector<std::string> command{kThisProgram};
  command.insert(command.end(), argv + 1, argv + argc);
  set_process_title(argc, argv, program_name() + " keeper");
  return keep_worker(std::move(command));
}

int keep_worker(std::vector<std::string> command) {
  take_signals();
  command.insert(command.end(), {kKeeperFlag, std::to_string(::getpid())});
  for (int short_lives = 0; short_lives < kShortLives;) {
    const auto begin = Clock::now();
    Process worker = Process::spawn(command);
    const std::string end = *worker.wait(Deadline::max());
    const int code = worker.exit_code().value_or(kBeginAgain);
    if (code != kBeginAgain && code != kDeviceGone) return code;
    short_lives = Clock::now() < begin + kShortLife ? short_lives + 1 : 0;
    if (short_lives > 1) std::this_thread::sleep_for(kBreath);
    tell(why_another(worker, end) + "; starts another");
  }
  tell(kerf::format("error: {} workers in a row ended as soon as they began", kShortLives));
  return 1;
}

int end_of_worker(const Error& error, int keeper) {
  if (keeper == 0) return exit_code(error.code());
  if (error.code() == ErrorCode::kDeviceLost) return kDeviceGone;
  return error.code() == ErrorCode::kLost ? kBeginAgain : exit_code(error.code());
}

void end_with(int keeper) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != keeper)
    throw Error(ErrorCode::kLost, kerf::format("its keeper, process {}, has ended", keeper));
}

}  // namespace kerf::runtime
