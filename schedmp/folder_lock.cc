#include "schedmp/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::schedmp {

namespace {

// As often may others take the folder or the lock's file away in between.
constexpr int kMostTries = 1000;

// Whether the path leads to another file by now, or to none: who had the lock before took its name
// away.
bool has_lost_name(const std::filesystem::path& path, const runtime::OpenFile& file) {
  struct stat named {};
  struct stat opened {};
  if (::stat(path.c_str(), &named) != 0) return errno == ENOENT || errno == ENOTDIR;
  return ::fstat(file.number(), &opened) == 0 &&
         (named.st_dev != opened.st_dev || named.st_ino != opened.st_ino);
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code refused;
  std::filesystem::create_directories(folder, refused);
  if (refused)
    throw Error(ErrorCode::kUnavailable,
                kerf::format("it cannot become a folder for checkpoints: {}", refused.message()),
                folder.string());
}

}  // namespace

FolderLock::~FolderLock() {
  if (file_.number() < 0 || has_lost_name(path_, file_)) return;
  // Once more: those of less than a few seconds stayed when it began.
  runtime::remove_abandoned_files(path_.parent_path());
  ::unlink(path_.c_str());
}

std::shared_ptr<const FolderLock> lock_folder(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kFolderLock;
  for (int tries = 0; tries < kMostTries; ++tries) {
    make_folder(folder);
    runtime::OpenFile file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (file.number() < 0) {
      if (errno == ENOENT || errno == ENOTDIR) continue;  // the last one took the folder away
      if (errno == ELOOP || errno == EISDIR)
        throw Error(ErrorCode::kUnavailable, "it is no file that locks a folder: remove it",
                    path.string());
      return std::make_shared<const FolderLock>(path, std::move(file));
    }
    if (::flock(file.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return nullptr;
    if (has_lost_name(path, file)) continue;
    runtime::remove_abandoned_files(folder);
    return std::make_shared<const FolderLock>(path, std::move(file));
  }
  throw Error(ErrorCode::kUnavailable, "the file that locks it is gone whenever it was made",
              folder.string());
}

std::shared_ptr<const FolderLock> expect_lock(const std::filesystem::path& folder) {
  auto lock = lock_folder(folder);
  if (lock == nullptr)
    throw Error(ErrorCode::kUsage, "another run has its checkpoints in it now", folder.string());
  return lock;
}

}  // namespace kerf::schedmp
