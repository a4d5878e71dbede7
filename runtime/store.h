// The store: the files of a run, which lie on the scheduler's host, as a worker opens them wherever
// it is.
//
// A worker of that host opens them itself (LocalStore), one of another asks the scheduler for each
// piece (remote_store.h); what either sees, and meets, is the same. Used by one thread, as are its
// files, which a store outlives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/error.h"

namespace kerf::runtime {

// As RegularFile.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual const std::string& origin() const = 0;
  virtual uint64_t bytes() const = 0;  // when it was opened
  // Throws Error{`code`} that names the file where it ends before, or cannot be read.
  virtual void read(uint64_t first, std::span<std::byte> to, ErrorCode code) = 0;
};

// What the system refuses throws Error{kUnavailable} that names the path: in the call that meets
// it, or in a later one. Then the file is used no more.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual void write(std::string_view bytes) = 0;
  // What was written so far has been taken by the system there when it returns,
  virtual void flush() = 0;
  // or is on its disk.
  virtual void settle() = 0;
  // Nothing is written behind it.
  virtual void commit() = 0;
};

class Store {
 public:
  virtual ~Store() = default;
  // Throws Error{kUsage} that names the path if it cannot be opened or is no regular file.
  virtual std::unique_ptr<ReadableFile> open(const std::filesystem::path& path) = 0;
  // The same; null where there is nothing of that name.
  virtual std::unique_ptr<ReadableFile> find(const std::filesystem::path& path) = 0;
  // Whole or nothing, as AtomicFile: without commit() nothing is left.
  virtual std::unique_ptr<WritableFile> create(const std::filesystem::path& path) = 0;
  // The first `kept` bytes of what is there, and behind them what is written, as it comes. A file
  // that is not there has none.
  virtual std::unique_ptr<WritableFile> extend(const std::filesystem::path& path,
                                               uint64_t kept) = 0;
};

// Holds no file: any is as good as another.
class LocalStore final : public Store {
 public:
  // `leaves`: bytes of the host's memory that files in memory, of a folder there (memory_folder.h)
  // or without a name (kept_file.h), do not take; none: memory_to_leave(). Without room a write
  // throws Error{kUnavailable}.
  explicit LocalStore(std::optional<int64_t> leaves = {}) : leaves_(leaves) {}
  std::unique_ptr<ReadableFile> open(const std::filesystem::path& path) override;
  std::unique_ptr<ReadableFile> find(const std::filesystem::path& path) override;
  std::unique_ptr<WritableFile> create(const std::filesystem::path& path) override;
  std::unique_ptr<WritableFile> extend(const std::filesystem::path& path, uint64_t kept) override;

 private:
  const std::optional<int64_t> leaves_;
};

}  // namespace kerf::runtime
