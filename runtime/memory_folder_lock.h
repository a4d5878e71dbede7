// Folders in memory as their warden sees them, too. Functions of the file system; any thread.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/open_file.h"

namespace kerf::runtime {

// A file in each, which its warden has locked as long as it is there.
inline constexpr const char* kWardenMark = ".warden";

// Whether that is the form of the path of one.
bool names_memory_folder(const std::filesystem::path& path);

// A folder in memory of this user, held from now on. Throws Error{kUnavailable} that names it where
// it is none, or another process holds it, for a second where the call is to `wait`: a warden that
// looks, and a run that removes what was left, hold it for less.
OpenFile hold_memory_folder(const std::filesystem::path& path, bool wait);
// A new one. Throws Error{kUnavailable} that names it, or the folder that it would be in.
struct HeldFolder {
  std::filesystem::path path;
  OpenFile lock;
};
HeldFolder make_held_folder();
// Removes those of this user that neither a warden nor a run holds.
void remove_abandoned_folders();
// The warden's mark in it; none where another process has it (unless the call is to `wait` until
// that lets go), or there is no such folder.
OpenFile hold_warden_mark(const std::filesystem::path& folder, bool wait);

// Whether anything but the warden's mark is in it.
bool holds_something(const std::filesystem::path& folder);
// Also while somebody who is being killed still writes into it: for some seconds.
void remove_memory_folder(const std::filesystem::path& folder);

}  // namespace kerf::runtime
