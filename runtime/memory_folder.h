// A folder of files in memory that outlives the process that made it: when that is killed, whoever
// comes within some seconds finds there what was left.
//
// It is in /dev/shm, of a random name, for its user alone. Its warden, a small process of the same
// program (warden.h), ends it, however the other one ends: so nothing is left behind. Whoever uses
// it holds the system's lock on it. One owner, any thread.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>

#include "runtime/open_file.h"

namespace kerf::runtime {

class MemoryFolder {
 public:
  // An empty one, and its warden. Removes those that others left whose warden was killed, too.
  // Throws Error{kUnavailable} that names /dev/shm.
  static MemoryFolder make(std::chrono::seconds outlives);
  // One that another process left. Throws Error{kUnavailable} that names it where it is none, or
  // is another user's, or is in use.
  static MemoryFolder claim(const std::filesystem::path& path);

  // Without remove(), its warden waits for whoever claims it.
  MemoryFolder(MemoryFolder&&) = default;
  MemoryFolder& operator=(MemoryFolder&&) = default;
  ~MemoryFolder() = default;

  const std::filesystem::path& path() const { return path_; }
  // With all that is in it. A warden that it was made with has ended by then.
  void remove();

 private:
  MemoryFolder(std::filesystem::path path, OpenFile lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;
  OpenFile lock_;      // the folder itself
  OpenFile life_{-1};  // that its warden reads the other end of
};

// Whether a file of that path is in such a folder, by its name alone.
bool lies_in_memory_folder(const std::filesystem::path& path);
// Whether the path, /proc/PID/fd/N, leads to a file in memory that has no name (kept_file.h).
bool is_memory_without_name(const std::filesystem::path& path);

}  // namespace kerf::runtime
