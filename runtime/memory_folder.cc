#include "runtime/memory_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "runtime/error.h"
#include "runtime/event_fd.h"
#include "runtime/memory_folder_lock.h"
#include "runtime/process.h"
#include "runtime/warden.h"

namespace kerf::runtime {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* kMemory = "/dev/shm";
constexpr std::string_view kPrefix = "kerf-kept-";
constexpr size_t kNameDigits = 32;
constexpr auto kRemoval = 10s;
constexpr auto kStart = 60s;  // of a warden
constexpr int kTries = 200;   // a second: a warden that looks may have lost its processor
constexpr auto kMoment = 5ms;
constexpr long kTmpfs = 0x01021994;  // statfs(2)
constexpr long kRamfs = 0x858458f6;

[[noreturn]] void refuse_folder(const fs::path& path, const std::string& why) {
  throw Error(ErrorCode::kUnavailable, why, path.string());
}

[[noreturn]] void refuse_by_system(const fs::path& path, const char* what) {
  refuse_folder(path, kerf::format("it cannot be {}: {}", what, std::strerror(errno)));
}

void expect_memory() {
  struct statfs facts {};
  if (::statfs(kMemory, &facts) != 0) refuse_by_system(kMemory, "looked at");
  if (facts.f_type != kTmpfs && facts.f_type != kRamfs)
    refuse_folder(kMemory, "it is no file system in memory");
}

std::string random_name() {
  uint64_t numbers[2];
  if (::getrandom(numbers, sizeof numbers, 0) != sizeof numbers)
    refuse_by_system(kMemory, "given a folder of a random name");
  return kerf::format("{}{:016x}{:016x}", kPrefix, numbers[0], numbers[1]);
}

bool is_name(std::string_view name) {
  return name.starts_with(kPrefix) && name.size() == kPrefix.size() + kNameDigits &&
         name.find_first_not_of("0123456789abcdef", kPrefix.size()) == std::string_view::npos;
}

bool locks(const OpenFile& file, bool wait) {
  return ::flock(file.number(), wait ? LOCK_EX : LOCK_EX | LOCK_NB) == 0;
}

// Though a warden may look at it just now.
bool locks_soon(const OpenFile& folder) {
  for (int tries = 1; !locks(folder, false); ++tries) {
    if (tries == kTries) return false;
    std::this_thread::sleep_for(kMoment);
  }
  return true;
}

bool is_own(const fs::path& folder) {
  struct stat facts {};
  return ::lstat(folder.c_str(), &facts) == 0 && facts.st_uid == ::geteuid();
}

// Both locks of it are to be had: neither a warden nor a run has anything to do with it. While we
// have the first, no warden looks at the other, so whoever has that is a run.
void remove_if_abandoned(const fs::path& folder) {
  const OpenFile mark = hold_warden_mark(folder, false);
  if (mark.number() < 0) return;
  try {
    const OpenFile held = hold_memory_folder(folder, /*wait=*/false);
    remove_memory_folder(folder);
  } catch (const Error&) {
    return;  // a run has it, which has just begun or whose warden was killed
  }
}

// The process that this starts has another do the work, and is over once that is there.
void start_warden(const fs::path& folder, std::chrono::seconds outlives, const OpenFile& heard) {
  const OpenFile nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  Process start =
      Process::spawn_beside(warden_command(folder, outlives), nowhere.number(), heard.number());
  if (!start.wait(after(kStart)) || start.exit_code().value_or(0) != 0)
    refuse_folder(folder, "its warden does not start");
}

// Of the warden that has its other end, and says nothing.
void await_end(const OpenFile& life) {
  const Deadline deadline = after(kRemoval);
  char nothing = 0;
  while (Clock::now() < deadline && ::recv(life.number(), &nothing, 1, MSG_DONTWAIT) < 0 &&
         (errno == EAGAIN || errno == EINTR))
    poll_readable({life.number()}, deadline);
}

}  // namespace

bool names_memory_folder(const fs::path& path) {
  return path.parent_path() == kMemory && is_name(path.filename().string());
}

void remove_abandoned_folders() {
  std::vector<fs::path> found;
  std::error_code refused;
  for (fs::directory_iterator at(kMemory, refused); !refused && at != fs::directory_iterator();
       at.increment(refused))
    if (names_memory_folder(at->path()) && is_own(at->path())) found.push_back(at->path());
  for (const fs::path& folder : found) remove_if_abandoned(folder);
}

// Another run that begins now may have taken it for abandoned before it was held.
HeldFolder make_held_folder() {
  for (int tries = 1;; ++tries) {
    fs::path path = fs::path(kMemory) / random_name();
    if (::mkdir(path.c_str(), S_IRWXU) != 0) refuse_by_system(path, "made");
    try {
      OpenFile lock = hold_memory_folder(path, /*wait=*/true);
      return {std::move(path), std::move(lock)};
    } catch (const Error&) {
      ::rmdir(path.c_str());
      if (tries == kTries) throw;
    }
  }
}

OpenFile hold_memory_folder(const fs::path& path, bool wait) {
  if (!names_memory_folder(path))
    refuse_folder(path, "it is no folder that a run of Kerf keeps in memory");
  OpenFile folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.number() < 0 && errno == ENOENT) refuse_folder(path, "it is gone");
  if (folder.number() < 0) refuse_by_system(path, "opened");
  struct stat facts {};
  if (::fstat(folder.number(), &facts) != 0) refuse_by_system(path, "looked at");
  if (facts.st_uid != ::geteuid()) refuse_folder(path, "it is another user's");
  if ((facts.st_mode & 0077U) != 0) refuse_folder(path, "other users may look into it");
  if (!(wait ? locks_soon(folder) : locks(folder, false)))
    refuse_folder(path, "another run has it now");
  // Removed between the two.
  if (::fstat(folder.number(), &facts) != 0 || facts.st_nlink == 0)
    refuse_folder(path, "it is gone");
  return folder;
}

OpenFile hold_warden_mark(const fs::path& folder, bool wait) {
  OpenFile mark(::open((folder / kWardenMark).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                       S_IRUSR | S_IWUSR));
  return mark.number() >= 0 && locks(mark, wait) ? std::move(mark) : OpenFile(-1);
}

bool holds_something(const fs::path& folder) {
  std::error_code refused;
  for (fs::directory_iterator at(folder, refused); !refused && at != fs::directory_iterator();
       at.increment(refused))
    if (at->path().filename() != kWardenMark) return true;
  return false;
}

void remove_memory_folder(const fs::path& folder) {
  const Deadline deadline = after(kRemoval);
  for (std::error_code refused;;) {
    fs::remove_all(folder, refused);
    if (!fs::exists(folder, refused) || Clock::now() >= deadline) return;
    std::this_thread::sleep_for(20ms);
  }
}

bool lies_in_memory_folder(const fs::path& path) {
  static const std::string begin = kerf::format("{}/{}", kMemory, kPrefix);
  return path.native().starts_with(begin);
}

bool is_memory_without_name(const fs::path& path) {
  struct stat file {};
  struct statfs system {};
  return ::stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) && file.st_nlink == 0 &&
         ::statfs(path.c_str(), &system) == 0 && system.f_type == kTmpfs;
}

MemoryFolder MemoryFolder::make(std::chrono::seconds outlives) {
  expect_memory();
  remove_abandoned_folders();
  HeldFolder made = make_held_folder();
  MemoryFolder folder(std::move(made.path), std::move(made.lock));
  try {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      refuse_by_system(folder.path(), "given a warden");
    const OpenFile heard(ends[0]);
    folder.life_ = OpenFile(ends[1]);
    start_warden(folder.path(), outlives, heard);
  } catch (const Error&) {
    folder.remove();
    throw;
  }
  return folder;
}

MemoryFolder MemoryFolder::claim(const fs::path& path) {
  return {path, hold_memory_folder(path, /*wait=*/true)};
}

void MemoryFolder::remove() {
  if (path_.empty()) return;
  if (life_.number() >= 0) {  // one that was killed does not hear it, and has ended
    static_cast<void>(
        ::send(life_.number(), kEndsInOrder.data(), kEndsInOrder.size(), MSG_NOSIGNAL));
    await_end(life_);
  }
  life_.close();
  remove_memory_folder(std::exchange(path_, {}));
}

}  // namespace kerf::runtime
