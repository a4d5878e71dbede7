// Child processes: workers that a scheduler starts itself.
//
// A child is started by posix_spawn before any ZeroMQ context exists in this process, with no
// inherited descriptors but 0, 1 and 2, and dies with its parent (it asks the kernel for SIGKILL on
// the parent's death as its first act: see die_with_parent). Destroying a Process kills and reaps it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/time.h"

namespace kerf::runtime {

class Process {
 public:
  // Throws Error{kUnavailable} that names the program.
  static Process spawn(const std::vector<std::string>& command);

  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  pid_t pid() const { return pid_; }
  // How it ended ("exit code 1", "signal 9 (Killed)"), empty while it runs. Reaps.
  std::optional<std::string> ended();
  // Empty when the deadline passed.
  std::optional<std::string> wait(Deadline deadline);
  void kill(int signal);

 private:
  explicit Process(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
  std::optional<std::string> ended_;
};

// This process gets SIGKILL when the thread's process that started it ends. `parent` is the pid that
// the caller believes to be its parent; ends at once if it is already gone.
void die_with_parent(pid_t parent);
// The file of the running program.
std::string program_path();
// How this process shows in ps: "kerf worker".
void set_process_title(int argc, char** argv, const std::string& title);

}  // namespace kerf::runtime
