#include "runtime/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <random>
#include <system_error>
#include <utility>

#include "runtime/error.h"
#include "runtime/open_file.h"

namespace kerf::runtime {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporary = ".kerf-";
constexpr std::string_view kEnding = ".tmp";

[[noreturn]] void refuse(const fs::path& path, std::string message) {
  throw Error(ErrorCode::kUsage, std::move(message), path.string());
}

// Beside the target, so that rename stays within one file system; unlike any other process's, and
// short where the target's name is as long as names may be.
fs::path temporary_beside(const fs::path& path) {
  std::random_device random;
  return path.parent_path() / format("{}{:08x}{:08x}{}", kTemporary, random(), random(), kEnding);
}

// Nobody writes it any more. Who has just made it may not have locked it yet. Opened to write,
// without which NFS, whose servers know locks of ranges, gives no lock for one alone.
bool is_abandoned(const fs::path& path) {
  constexpr time_t kSettled = 10;  // seconds
  const OpenFile file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat status {};
  return file.number() >= 0 && ::fstat(file.number(), &status) == 0 && S_ISREG(status.st_mode) &&
         std::time(nullptr) - status.st_mtime >= kSettled &&
         ::flock(file.number(), LOCK_EX | LOCK_NB) == 0;
}

// Where symbolic links lead, whether or not something is there.
fs::path follow_links(fs::path path) {
  constexpr int kMostLinks = 40;  // as the kernel
  std::error_code no_link;
  for (int i = 0; i < kMostLinks; ++i) {
    const fs::path target = fs::read_symlink(path, no_link);
    if (no_link) break;
    path = path.parent_path() / target;  // an absolute target replaces all of it
  }
  return path;
}

// Where a file is what this process's own output goes into (`--out /dev/stdout > file`), that
// descriptor, or -1. Replaced by another, the file that the shell opened would be lost, and with it
// all that is printed.
int own_output(const struct stat& file) {
  struct stat output {};
  for (const int number : {STDOUT_FILENO, STDERR_FILENO})
    if (::fstat(number, &output) == 0 && output.st_dev == file.st_dev &&
        output.st_ino == file.st_ino)
      return number;
  return -1;
}

}  // namespace

std::string read_file(const fs::path& path, size_t max_bytes) {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) refuse(path, format("cannot be opened: {}", std::strerror(errno)));
  struct stat status {};
  if (::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode))
    refuse(path, "is not a regular file");
  if (static_cast<uint64_t>(status.st_size) > max_bytes)
    refuse(path, format("has {} bytes, more than the {} that are read", status.st_size, max_bytes));

  std::string text(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::read(file.number(), text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse(path, format("cannot be read: {}", std::strerror(errno)));
    if (count == 0) break;  // it shrank since
    done += static_cast<size_t>(count);
  }
  text.resize(done);
  return text;
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)), target_(follow_links(path_)) {
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  check(exists || errno == ENOENT, "opened");
  // What has no name, a file in memory, cannot be replaced either.
  if (exists && (!S_ISREG(status.st_mode) || status.st_nlink == 0)) {
    file_ = ::open(path_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
    check(file_ >= 0, "opened");
    return;
  }
  if (const int output = exists ? own_output(status) : -1; output >= 0) {
    file_ = ::fcntl(output, F_DUPFD_CLOEXEC, 0);  // what is printed goes on behind
    check(file_ >= 0, "opened");
    return;
  }
  const mode_t mode = exists ? status.st_mode & 0777 : 0666;
  temporary_ = temporary_beside(target_);
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  check(file_ >= 0, "created");
  static_cast<void>(::flock(file_, LOCK_EX | LOCK_NB));  // as long as this process has it open
  // Where it cannot be had, the file has no more than that.
  if (exists) static_cast<void>(::fchmod(file_, mode));
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::check(bool fine, const char* step) const {
  if (fine) return;
  throw Error(ErrorCode::kUnavailable, format("cannot be {}: {}", step, std::strerror(errno)),
              path_.string());
}

void AtomicFile::write(std::string_view bytes) {
  KERF_CHECK(file_ >= 0, "{} is committed", path_.string());
  check(write_whole(file_, bytes), "written");
}

void AtomicFile::settle() {
  KERF_CHECK(file_ >= 0, "{} is committed", path_.string());
  if (!temporary_.empty()) check(::fdatasync(file_) == 0, "written to disk");
}

void AtomicFile::commit() {
  KERF_CHECK(file_ >= 0, "{} is committed", path_.string());
  if (!temporary_.empty()) check(::fsync(file_) == 0, "written to disk");
  check(::close(std::exchange(file_, -1)) == 0, "written");
  if (temporary_.empty()) return;
  check(::rename(temporary_.c_str(), target_.c_str()) == 0, "replaced");
  temporary_.clear();
  settle_folder(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

// Some file systems cannot fsync a folder (EINVAL); there what was done is as durable as it gets.
void settle_folder(const fs::path& folder) {
  const OpenFile directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.number() < 0 || (::fsync(directory.number()) != 0 && errno != EINVAL))
    throw Error(ErrorCode::kUnavailable,
                format("cannot be written to disk: {}", std::strerror(errno)), folder.string());
}

void remove_abandoned_files(const fs::path& folder) {
  std::error_code refused;
  for (fs::directory_iterator at(folder, refused); !refused && at != fs::directory_iterator();
       at.increment(refused)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(kTemporary) && name.ends_with(kEnding) && is_abandoned(at->path()))
      ::unlink(at->path().c_str());
  }
}

void write_file_atomic(const fs::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace kerf::runtime
