// A folder of checkpoints, while one run writes into it or one command removes from it: two would
// take each other's away.
//
// It is a lock of the system on .kerf-lock in it and ends with the process however that ends; that
// file and temporaries, as killed processes leave them, are no hindrance and go with it. Where the
// file system has no locks or no room for the file, nobody is kept out. Immutable, thread-safe.
#pragma once

#include <filesystem>
#include <memory>
#include <utility>

#include "runtime/open_file.h"

namespace kerf::schedmp {

inline constexpr const char* kFolderLock = ".kerf-lock";

class FolderLock {
 public:
  // The file at that path, or none.
  FolderLock(std::filesystem::path path, runtime::OpenFile file)
      : path_(std::move(path)), file_(std::move(file)) {}
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  const std::filesystem::path path_;
  const runtime::OpenFile file_;
};

// Makes the folder where there is none; null where another has it, of this process or any other.
// Throws Error{kUnavailable} that names it where it cannot become a folder, or where something else
// lies in place of the lock's file.
std::shared_ptr<const FolderLock> lock_folder(const std::filesystem::path& folder);

// The same, but throws Error{kUsage} where another has it.
std::shared_ptr<const FolderLock> expect_lock(const std::filesystem::path& folder);

}  // namespace kerf::schedmp
