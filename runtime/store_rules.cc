#include "runtime/store_rules.h"

#include <algorithm>
#include <system_error>

#include "runtime/error.h"
#include "runtime/store_messages.h"

namespace kerf::runtime {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_path(const std::string& path, const char* why) {
  throw Error(ErrorCode::kProtocol, kerf::format("it asked for '{}', {}", path, why));
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

}  // namespace

void StoreRules::allow(const fs::path& folder, StoreAccess access) {
  const fs::path whole = fs::absolute(folder);
  const std::lock_guard lock(mutex_);
  folders_.push_back({whole.has_filename() ? whole : whole.parent_path(), access});
}

void StoreRules::keep(int worker, const std::string& path) {
  const std::lock_guard lock(mutex_);
  kept_[path] = worker;
}

// Links are followed as they are now. Workers can make none, and whoever else may make some in a
// folder of the run may do there what he likes.
void StoreRules::check(int worker, const std::string& path, StoreAccess access) const {
  std::vector<Folder> folders;
  {
    const std::lock_guard lock(mutex_);
    if (const auto kept = kept_.find(path); kept != kept_.end()) {
      if (kept->second != worker) refuse_path(path, "which is kept for another worker");
      return;
    }
    folders = folders_;  // a disk may take long, and whoever allows more is not to wait for it
  }
  const fs::path whole = fs::absolute(path);
  const fs::path name = whole.filename();
  if (path.empty() || path.size() > kMostStorePath || path.find('\0') != std::string::npos ||
      name.empty() || name == "." || name == "..")
    refuse_path(path, "which is no path of a file");
  std::error_code unknown;
  const fs::path parent = fs::weakly_canonical(whole.parent_path(), unknown);
  if (unknown) refuse_path(path, "whose folder cannot be looked at");
  const auto allows = [&](const Folder& folder) {
    std::error_code refused;
    const fs::path canonical = fs::weakly_canonical(folder.path, refused);
    return !refused && folder.access >= access && lies_in(parent, canonical);
  };
  if (std::ranges::none_of(folders, allows))
    refuse_path(path,
                "which lies in no folder that this run lets its workers use so; a program names "
                "others by SchedulerHalf::folders()");
  if (fs::symlink_status(whole, unknown).type() == fs::file_type::symlink)
    refuse_path(path, "which is a symbolic link");
}

}  // namespace kerf::runtime
