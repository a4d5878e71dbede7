#include "schedmp/memory_journal.h"

#include <unistd.h>

#include <fstream>
#include <system_error>

#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/json.h"
#include "runtime/wire.h"

namespace kerf::schedmp {

namespace {

namespace fs = std::filesystem;

constexpr const char* kJournal = "memory.json";
constexpr const char* kVersionName = "kerf_memory";
constexpr int kJournalVersion = 1;
constexpr size_t kMostJournal = size_t{64} << 10;

}  // namespace

std::string this_boot() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return boot;
}

std::string write_memory_journal(const MemoryJournal& journal) {
  Json json{{kVersionName, kJournalVersion}, {"folder", journal.folder}, {"boot", journal.boot}};
  json["sum_of_the_above"] = runtime::crc32c(json_text(json, 2));
  return json_text(json, 2) + "\n";
}

MemoryJournal parse_memory_journal(const std::string& text, const std::string& origin) {
  const Json json = parse_json(text, origin);
  if (json_int(json, kVersionName, origin) != kJournalVersion)
    throw Error(ErrorCode::kUsage, "it is of another version of Kerf", origin);
  MemoryJournal journal{json_string(json, "folder", origin), json_string(json, "boot", origin)};
  if (text != write_memory_journal(journal))
    throw Error(ErrorCode::kUsage, "it is not what was written", origin);
  return journal;
}

void keep_memory_journal(const fs::path& checkpoints, const MemoryJournal& journal) {
  runtime::write_file_atomic(checkpoints / kJournal, write_memory_journal(journal));
}

std::optional<MemoryJournal> find_memory_journal(const fs::path& checkpoints) {
  const fs::path path = checkpoints / kJournal;
  std::error_code unknown;
  if (!fs::exists(path, unknown)) return std::nullopt;
  MemoryJournal journal =
      parse_memory_journal(runtime::read_file(path, kMostJournal), path.string());
  if (journal.boot != this_boot()) return std::nullopt;
  return journal;
}

void remove_memory_journal(const fs::path& checkpoints) {
  ::unlink((checkpoints / kJournal).c_str());
}

}  // namespace kerf::schedmp
