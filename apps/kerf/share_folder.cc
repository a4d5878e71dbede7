#include "apps/kerf/share_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "runtime/error.h"
#include "runtime/open_file.h"
#include "runtime/time.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kShares = ".shares-";
constexpr std::string_view kDrawn = "XXXXXX";  // for mkdtemp

// What is of such a name need not be Kerf's; its lock tells.
bool names_shares(std::string_view name) {
  if (!name.starts_with(kShares)) return false;
  name.remove_prefix(kShares.size());
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  return digits > 0 && name.size() == digits + 1 + kDrawn.size() && name[digits] == '-' &&
         std::all_of(name.begin() + static_cast<ptrdiff_t>(digits) + 1, name.end(),
                     [](unsigned char each) { return std::isalnum(each) != 0; });
}

// Its run is over. Opened to write, as NFS wants it for a lock for one alone.
bool are_abandoned(const fs::path& shares) {
  const runtime::OpenFile lock(::open((shares / schedmp::kFolderLock).c_str(),
                                      O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  return lock.number() >= 0 && ::flock(lock.number(), LOCK_EX | LOCK_NB) == 0;
}

// Of whatever process: those of containers have the same numbers.
void remove_abandoned_shares(const fs::path& folder) {
  std::error_code refused;
  for (fs::directory_iterator at(folder, refused); !refused && at != fs::directory_iterator();
       at.increment(refused)) {
    std::error_code ignored;
    if (names_shares(at->path().filename().string()) &&
        fs::is_directory(at->symlink_status(ignored)) && are_abandoned(at->path()))
      fs::remove_all(at->path(), ignored);
  }
}

fs::path make_shares(const fs::path& folder) {
  std::string name =
      (fs::absolute(folder) / format("{}{}-{}", kShares, ::getpid(), kDrawn)).string();
  if (::mkdtemp(name.data()) == nullptr)
    throw Error(ErrorCode::kUnavailable, "cannot make a folder here", folder.string());
  return name;
}

}  // namespace

ShareFolder::ShareFolder(const fs::path& folder) {
  remove_abandoned_shares(folder);
  // Another run may have taken the last one for abandoned before it was locked.
  while (!lock_) {
    path_ = make_shares(folder);
    lock_ = schedmp::lock_folder(path_);
  }
}

// Also while a worker that is being killed still writes into it. The lock goes first: NFS keeps
// what is open, and its folder.
ShareFolder::~ShareFolder() {
  constexpr auto kRemoval = std::chrono::seconds(2);
  constexpr auto kMoment = std::chrono::milliseconds(20);
  lock_.reset();
  const runtime::Deadline deadline = runtime::after(kRemoval);
  for (std::error_code refused;;) {
    fs::remove_all(path_, refused);
    if (!fs::exists(path_, refused) || runtime::Clock::now() >= deadline) return;
    std::this_thread::sleep_for(kMoment);
  }
}

}  // namespace kerf::apps
