// Files: bounded reads and atomic writes. The functions are thread-safe; an AtomicFile has one
// owner.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace kerf::runtime {

// The whole file. Throws Error{kUsage} that names the path if it is absent, not a regular file or
// larger than `max_bytes`.
std::string read_file(const std::filesystem::path& path, size_t max_bytes = size_t{1} << 30);

// A file written piece by piece to a temporary beside `path`; commit() is fsync, rename, fsync of
// the folder. A reader sees the old or the new file, never a part; without commit() nothing is
// left. Symbolic links are followed, and a file keeps its mode. What is there but is no regular
// file (a device, a pipe), has no name (a file in memory), or is where this process's standard
// output or error output goes, is written into as the bytes come. Every call throws
// Error{kUnavailable} that names the path when the system refuses.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::string_view bytes);
  // What was written so far is on disk when it returns: of a large file now and then, so that
  // commit() does not take long.
  void settle();
  void commit();

 private:
  void check(bool fine, const char* step) const;

  std::filesystem::path path_;
  std::filesystem::path target_;     // where the path's links lead
  std::filesystem::path temporary_;  // empty where the target is written into
  int file_ = -1;
};

// Removes the temporaries that killed processes left in the folder. Each is locked while it is
// written, on whichever host; where the file system has no locks, or of what this process may not
// write, none is removed.
void remove_abandoned_files(const std::filesystem::path& folder);

// All of it at once: AtomicFile, write, commit.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

// What was created in the folder, or renamed or removed, is on disk when it returns. Throws
// Error{kUnavailable} that names it.
void settle_folder(const std::filesystem::path& folder);

}  // namespace kerf::runtime
