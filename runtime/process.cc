#include "runtime/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>

#include "runtime/error.h"
#include "runtime/event_fd.h"

namespace kerf::runtime {
namespace {

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return kerf::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return kerf::format("exit code {}", WEXITSTATUS(status));
}

// By number: the header of Debian 12's C library declares these as C++ functions.
int open_pidfd(pid_t child) { return static_cast<int>(::syscall(SYS_pidfd_open, child, 0)); }

// Runs in the child between fork and exec, where only async-signal-safe calls are allowed. On
// failure its errno goes back through `report`, which exec closes otherwise.
[[noreturn]] void become(char* const* arguments, pid_t parent, int report) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it ended before we asked
  // Of these its parent hears, and says what becomes of it.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int input = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (input >= 0) ::dup2(input, STDIN_FILENO);
  ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  ::execv(arguments[0], arguments);
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(report, &error, sizeof error);
  ::_exit(127);
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// What posix_spawn does in the child, and what the child begins with.
class SpawnActions {
 public:
  SpawnActions(int output, int input) {
    ::posix_spawn_file_actions_init(&files_);
    if (input < 0)
      ::posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    else
      ::posix_spawn_file_actions_adddup2(&files_, input, STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&files_, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&files_, output, STDERR_FILENO);
    ::posix_spawn_file_actions_addclosefrom_np(&files_, STDERR_FILENO + 1);
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  ~SpawnActions() {
    ::posix_spawn_file_actions_destroy(&files_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  const posix_spawn_file_actions_t* files() const { return &files_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

[[noreturn]] void cannot_start(const std::string& program, int error) {
  throw Error(ErrorCode::kUnavailable,
              kerf::format("cannot start {}: {}", program, std::strerror(error)));
}

}  // namespace

Process Process::spawn(const std::vector<std::string>& command) {
  KERF_CHECK(!command.empty(), "a process needs a program");
  std::vector<std::string> words = command;
  std::vector<char*> arguments = pointers_to(words);

  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) cannot_start(command[0], errno);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) become(arguments.data(), parent, report[1]);
  const int fork_error = errno;
  ::close(report[1]);
  int error = child < 0 ? fork_error : 0;
  if (child > 0)
    while (::read(report[0], &error, sizeof error) < 0 && errno == EINTR) {
    }
  ::close(report[0]);
  const int descriptor = child > 0 ? open_pidfd(child) : -1;
  if (child > 0 && descriptor < 0 && error == 0) error = errno;
  if (error != 0) {
    if (child > 0) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    if (descriptor >= 0) ::close(descriptor);
    cannot_start(command[0], error);
  }
  return Process(child, descriptor);
}

Process Process::spawn_beside(const std::vector<std::string>& command, int output, int input) {
  KERF_CHECK(!command.empty(), "a process needs a program");
  std::vector<std::string> words = command;
  const std::vector<char*> arguments = pointers_to(words);
  const SpawnActions actions(output, input);
  pid_t child = -1;
  if (const int error = ::posix_spawnp(&child, arguments[0], actions.files(), actions.attributes(),
                                       arguments.data(), environ);
      error != 0)
    cannot_start(command[0], error);
  Process process(child, open_pidfd(child));
  if (process.descriptor_ < 0) {
    const int error = errno;
    ::kill(child, SIGKILL);  // not reaped yet, so it has its number
    cannot_start(command[0], error);
  }
  return process;
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      ended_(std::move(other.ended_)),
      exit_code_(other.exit_code_) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(ended_, other.ended_);
  std::swap(exit_code_, other.exit_code_);
  return *this;
}

Process::~Process() {
  if (pid_ > 0 && !ended_) {
    kill(SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<std::string> Process::ended() {
  if (ended_) return ended_;
  int status = 0;
  const pid_t reaped = ::waitpid(pid_, &status, WNOHANG);
  if (reaped == pid_) ended_ = how_it_ended(status);
  if (reaped == pid_ && WIFEXITED(status)) exit_code_ = WEXITSTATUS(status);
  // Where SIGCHLD is ignored, which is inherited, the kernel reaps and tells nobody.
  if (reaped < 0 && errno == ECHILD) ended_ = "an end in an unknown way";
  return ended_;
}

std::optional<std::string> Process::wait(Deadline deadline) {
  while (!ended() && Clock::now() < deadline) poll_readable({descriptor_}, deadline);
  return ended();
}

void Process::kill(int signal) {
  // Not by number, which may be another's by now.
  if (pid_ > 0 && !ended_) ::syscall(SYS_pidfd_send_signal, descriptor_, signal, nullptr, 0);
}

void begin_process_again(int argc, char** argv, std::vector<std::string> more, int handed) {
  std::vector<char*> arguments(argv, argv + argc);
  for (std::string& word : more) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  if (handed >= 0) ::fcntl(handed, F_SETFD, 0);
  ::execv(kThisProgram, arguments.data());
  cannot_start("itself again", errno);
}

std::string program_path() { return std::filesystem::read_symlink(kThisProgram).string(); }

std::string program_name() {
  const std::string name = std::filesystem::path(program_path()).filename().string();
  return name.substr(0, name.find(" (deleted)"));  // what the kernel adds to a file that is gone
}

void set_process_title(int argc, char** argv, const std::string& title) {
  ::prctl(PR_SET_NAME, title.c_str());
  if (argc < 1) return;
  // The kernel shows the bytes from argv[0] to the end of the last argument.
  char* const begin = argv[0];
  char* end = begin;
  for (int i = 0; i < argc && argv[i] == end; ++i) end += std::strlen(argv[i]) + 1;
  const auto room = static_cast<size_t>(end - begin);
  // The arguments stay readable: as copies that live as long as the process.
  for (int i = 0; i < argc; ++i) argv[i] = ::strdup(argv[i]);
  std::memset(begin, 0, room);
  std::copy_n(title.begin(), std::min(title.size(), room - 1), begin);
}

}  // namespace kerf::runtime
