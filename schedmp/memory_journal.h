// The journal of what a run keeps in memory: a file beside its checkpoints on disk that says which
// folder in memory has its newest ones.
//
//   checkpoints/memory.json    the folder, the boot of the host that it is of, a sum of the above
//
// Another boot, or another host, makes nothing of it. Functions of the file system.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace kerf::schedmp {

struct MemoryJournal {
  std::string folder;
  std::string boot;  // this_boot()
  bool operator==(const MemoryJournal&) const = default;
};

// Another one whenever a host is started.
std::string this_boot();

std::string write_memory_journal(const MemoryJournal& journal);
// Throws Error{kUsage} that names `origin` where it is not what was written, to the byte.
MemoryJournal parse_memory_journal(const std::string& text, const std::string& origin);

// In that folder of checkpoints. Throws Error{kUnavailable} where it cannot be written.
void keep_memory_journal(const std::filesystem::path& checkpoints, const MemoryJournal& journal);
// None: there is none of this boot. Throws as parse_memory_journal().
std::optional<MemoryJournal> find_memory_journal(const std::filesystem::path& checkpoints);
void remove_memory_journal(const std::filesystem::path& checkpoints);

}  // namespace kerf::schedmp
