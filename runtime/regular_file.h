// A regular file that is read in pieces, at any place of it.
//
// Immutable, thread-safe; it stays the file that it was though another gets its name.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "runtime/error.h"
#include "runtime/format.h"
#include "runtime/open_file.h"

namespace kerf::runtime {

class RegularFile {
 public:
  // How to open it. O_NONBLOCK: opening a pipe must not wait for its writer.
  static constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

  // Throws Error{kUsage} that names the path if it cannot be opened or is no regular file.
  explicit RegularFile(const std::filesystem::path& path)
      : RegularFile(path.string(), OpenFile(open(path.c_str(), kFlags))) {}
  // The same of what open() returned just now for `origin`.
  RegularFile(std::string origin, OpenFile file)
      : origin_(std::move(origin)), file_(std::move(file)) {
    if (file_.number() < 0)
      throw Error(ErrorCode::kUsage, format("it cannot be opened: {}", std::strerror(errno)),
                  origin_);
    if (fstat(file_.number(), &facts_) != 0)
      throw Error(ErrorCode::kUsage, format("it cannot be read: {}", std::strerror(errno)),
                  origin_);
    if (!S_ISREG(facts_.st_mode)) throw Error(ErrorCode::kUsage, "it is no regular file", origin_);
  }

  const std::string& origin() const { return origin_; }
  // As they were when it was opened.
  uint64_t bytes() const { return static_cast<uint64_t>(facts_.st_size); }
  const struct stat& facts() const { return facts_; }

  // Throws Error{`code`} that names the file where it ends before, or cannot be read.
  void read(uint64_t first, std::span<std::byte> to, ErrorCode code) const {
    while (!to.empty()) {
      const ssize_t got = pread(file_.number(), to.data(), to.size(), static_cast<off_t>(first));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw Error(code, format("byte {}: {}", first, std::strerror(errno)), origin_);
      if (got == 0)
        throw Error(code, format("it has no byte {}; it had {} when it was opened", first, bytes()),
                    origin_);
      to = to.subspan(static_cast<size_t>(got));
      first += static_cast<uint64_t>(got);
    }
  }

 private:
  std::string origin_;
  OpenFile file_;
  struct stat facts_ {};
};

}  // namespace kerf::runtime
