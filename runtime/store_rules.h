// Which files of the scheduler's host a run lets workers of other hosts use.
//
// Owned by the crew. Thread-safe: its thread says what is allowed, that of the store looks.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace kerf::runtime {

enum class StoreAccess : unsigned char { kRead, kWrite };  // kWrite: both

class StoreRules {
 public:
  // All that lies in the folder, at any depth, which need not be there yet.
  void allow(const std::filesystem::path& folder, StoreAccess access);
  // A file of this very name, for that worker alone.
  void keep(int worker, const std::string& path);

  // Throws Error{kProtocol} unless that worker may use the file so: what lies outside, also by a
  // symbolic link, or is one, it may not. Whether there is such a file is not asked.
  void check(int worker, const std::string& path, StoreAccess access) const;

 private:
  struct Folder {
    std::filesystem::path path;
    StoreAccess access;
  };

  mutable std::mutex mutex_;
  std::vector<Folder> folders_;
  std::map<std::string, int> kept_;  // by path
};

}  // namespace kerf::runtime
