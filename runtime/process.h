// Child processes: workers that a scheduler starts itself, and what starts workers elsewhere.
//
// A child of spawn() must be started before any ZeroMQ context exists in this process. It inherits
// descriptors 1 and 2 and nothing else (its input is /dev/null), ignores SIGINT, SIGTERM and SIGHUP
// (its parent hears of these, and ends it), and the kernel kills it when the thread that started it
// ends. Destroying a Process kills and reaps it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/time.h"

namespace kerf::runtime {

class Process {
 public:
  // Program (a path) and its arguments. Throws Error{kUnavailable} that names the program.
  static Process spawn(const std::vector<std::string>& command);
  // Also where a ZeroMQ context exists: no copy of this process comes to be on the way
  // (posix_spawn). The program is a path or a name that PATH finds, `output` becomes descriptors 1
  // and 2, `input` descriptor 0 (negative: /dev/null). The child is in a session of its own, so no
  // terminal asks or interrupts it, and it outlives a parent that is killed. Throws as spawn()
  // does.
  static Process spawn_beside(const std::vector<std::string>& command, int output, int input = -1);

  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  pid_t pid() const { return pid_; }
  // Readable once it has ended (a pidfd).
  int descriptor() const { return descriptor_; }
  // How it ended ("exit code 1", "signal 9 (Killed)"), empty while it runs. Reaps. Where SIGCHLD is
  // ignored nobody can know how.
  std::optional<std::string> ended();
  // Once it has ended with one; empty: by a signal, or in an unknown way.
  std::optional<int> exit_code() const { return exit_code_; }
  // Empty when the deadline passed.
  std::optional<std::string> wait(Deadline deadline);
  // Ignored once it has ended.
  void kill(int signal);

 private:
  Process(pid_t pid, int descriptor) : pid_(pid), descriptor_(descriptor) {}
  pid_t pid_ = -1;
  int descriptor_ = -1;
  std::optional<std::string> ended_;
  std::optional<int> exit_code_;
};

// This process becomes a new one of the same program and arguments, and `more` of those: nothing of
// what it holds or does is left, but its number, its parent and descriptors 0 to 2, and `handed`.
// From any thread. Throws Error{kUnavailable}.
[[noreturn]] void begin_process_again(int argc, char** argv, std::vector<std::string> more = {},
                                      int handed = -1);

// The program that runs, to start or to read, also where another has taken its place on disk.
inline constexpr const char* kThisProgram = "/proc/self/exe";
// Where its file lies (to one that is gone the kernel adds " (deleted)"), and what that is called.
std::string program_path();
std::string program_name();
// How this process shows in ps ("kerf worker"): its name and the head of its arguments. Call it
// once the arguments were parsed; `argv` is overwritten.
void set_process_title(int argc, char** argv, const std::string& title);

}  // namespace kerf::runtime
