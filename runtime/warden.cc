#include "runtime/warden.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>

#include "runtime/memory_folder_lock.h"
#include "runtime/process.h"
#include "runtime/time.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

constexpr const char* kWarden = "warden";
constexpr auto kWardenLooksEvery = 100ms;

// Those that ask a process to end are read here from now on.
OpenFile open_signals() {
  sigset_t asks;
  ::sigemptyset(&asks);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&asks, signal);
  ::sigprocmask(SIG_BLOCK, &asks, nullptr);
  return OpenFile(::signalfd(-1, &asks, SFD_CLOEXEC));
}

// Whether there is something to read, or an end of it, within `timeout` (negative: whenever).
bool is_readable(int file, int timeout) {
  pollfd look{file, POLLIN, 0};
  return ::poll(&look, 1, timeout) > 0;
}

class Warden {
 public:
  Warden(std::filesystem::path folder, std::chrono::seconds outlives)
      : folder_(std::move(folder)), outlives_(outlives) {}

  void watch() {
    const bool in_order = hear_end();
    if (!in_order) wait_for_a_claim();
    remove_memory_folder(folder_);
  }

 private:
  // Of the run; whether it was in order.
  bool hear_end() {
    for (;;) {
      pollfd looks[] = {{STDIN_FILENO, POLLIN, 0}, {asked_ ? -1 : signals_.number(), POLLIN, 0}};
      if (::poll(looks, std::size(looks), -1) < 0 && errno != EINTR) return false;
      if (looks[1].revents != 0) asked_ = true;
      if (looks[0].revents == 0) continue;
      char said = 0;
      return ::read(STDIN_FILENO, &said, 1) == 1;
    }
  }

  // Until there is nothing in it, or nobody has held it for its time.
  void wait_for_a_claim() {
    Deadline deadline = after(outlives_);
    while (holds_something(folder_)) {
      const bool is_over = asked_ || Clock::now() >= deadline;
      if (!is_free())
        deadline = after(outlives_);
      else if (is_over)
        return;
      else
        ::flock(open_.number(), LOCK_UN);
      if (is_readable(asked_ ? -1 : signals_.number(), static_cast<int>(kWardenLooksEvery.count())))
        asked_ = true;
    }
  }

  // Held from then on: who comes now is told that it is in use, and a moment later that it is gone.
  bool is_free() const { return ::flock(open_.number(), LOCK_EX | LOCK_NB) == 0; }

  const std::filesystem::path folder_;
  const std::chrono::seconds outlives_;
  const OpenFile mark_ = hold_warden_mark(folder_, true);
  const OpenFile open_{::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  const OpenFile signals_ = open_signals();
  bool asked_ = false;  // to end
};

}  // namespace

std::vector<std::string> warden_command(const std::filesystem::path& folder,
                                        std::chrono::seconds outlives) {
  return {kThisProgram, kWarden, folder.string(), std::to_string(outlives.count())};
}

std::optional<int> watch_if_warden(int argc, char** argv) {
  if (argc != 4 || std::string_view(argv[1]) != kWarden) return std::nullopt;
  const std::filesystem::path folder = argv[2];
  const std::string_view told = argv[3];
  int64_t seconds = 0;
  const auto [next, fault] = std::from_chars(told.data(), told.data() + told.size(), seconds);
  if (fault != std::errc() || next != told.data() + told.size() || !names_memory_folder(folder))
    return std::nullopt;
  // It is no child of the run's: nobody who takes the run's place need know of it when it ends.
  if (const pid_t warden = ::fork(); warden != 0) return warden < 0 ? 1 : 0;
  std::filesystem::current_path("/");
  set_process_title(argc, argv, program_name() + " warden");
  Warden(folder, std::chrono::seconds(seconds)).watch();
  return 0;
}

}  // namespace kerf::runtime
