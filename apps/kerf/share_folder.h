// Where workers leave their shares of weights, or of answers: FOLDER/.shares-PID-XXXXXX. Gone when
// the run is over, however it ends, with what killed workers had begun; after a SIGKILL, when the
// next one begins there. A run has the system's lock on .kerf-lock in it as long as it goes on: of
// shares without that file, or with a lock that cannot be had, nobody else removes anything.
#pragma once

#include <filesystem>
#include <memory>

#include "schedmp/folder_lock.h"

namespace kerf::apps {

class ShareFolder {
 public:
  // In a folder that is there. Throws Error{kUnavailable}.
  explicit ShareFolder(const std::filesystem::path& folder);
  ShareFolder(const ShareFolder&) = delete;
  ShareFolder& operator=(const ShareFolder&) = delete;
  ~ShareFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::shared_ptr<const schedmp::FolderLock> lock_;
};

}  // namespace kerf::apps
