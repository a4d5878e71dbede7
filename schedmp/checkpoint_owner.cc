#include "schedmp/checkpoint_owner.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "runtime/format.h"
#include "runtime/open_file.h"

namespace kerf::schedmp {

namespace {

namespace fs = std::filesystem;

constexpr size_t kOpening = 64;  // bytes, in which the key is

bool is_of_a_worker(std::string_view name) {
  const size_t dot = name.find('.');
  return number_behind(kOfWorker, name.substr(0, dot)) &&
         (dot == std::string_view::npos || number_behind(".", name.substr(dot)).value_or(0) > 0);
}

// Whether a manifest says so; not where there is none, or none that can be read.
bool is_told_by(const fs::path& manifest) {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  const runtime::OpenFile file(::open(manifest.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) return false;
  char opening[kOpening];
  const ssize_t count = ::read(file.number(), opening, sizeof opening);
  return count > 0 && std::string_view(opening, static_cast<size_t>(count)).find(kCheckpointKey) !=
                          std::string_view::npos;
}

}  // namespace

CheckpointOwner owner_of(const fs::path& checkpoint) {
  std::error_code refused;
  const fs::file_type type = fs::symlink_status(checkpoint, refused).type();
  if (type == fs::file_type::not_found) return CheckpointOwner::kNobody;
  const bool is_known = type != fs::file_type::none && type != fs::file_type::unknown;
  if (is_known && type != fs::file_type::directory) return CheckpointOwner::kOthers;
  if (is_told_by(checkpoint / kManifestName)) return CheckpointOwner::kKerf;
  const std::vector<std::string> names = names_in(checkpoint, refused);
  if (refused)
    return refused == std::errc::no_such_file_or_directory ? CheckpointOwner::kNobody
                                                           : CheckpointOwner::kUnknown;
  const auto has = [&](const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  // Others have manifests, too: of those a name alone says nothing.
  const auto is_of_a_run = [&](const std::string& name) {
    std::error_code unknown;
    return is_of_a_checkpoint(name) && !fs::is_directory(checkpoint / name, unknown);
  };
  const bool is_kerfs =
      std::ranges::all_of(names, is_of_a_run) &&
      (!has(kManifestName) || (has(kSchedulerName) && has(kerf::format("{}{}", kOfWorker, 0))));
  return is_kerfs ? CheckpointOwner::kKerf : CheckpointOwner::kOthers;
}

bool has_room_beside(const fs::path& others) {
  std::error_code refused;
  return fs::is_directory(fs::symlink_status(others, refused)) &&
         std::ranges::none_of(names_in(others, refused), is_of_a_checkpoint) && !refused;
}

bool is_of_a_checkpoint(std::string_view name) {
  return name == kManifestName || name == kSchedulerName || is_of_a_worker(name) ||
         (name.starts_with(".kerf-") && name.ends_with(".tmp"));
}

std::optional<int64_t> number_behind(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const char* const end = name.data() + name.size();
  int64_t number = 0;
  const auto [next, fault] = std::from_chars(name.data() + prefix.size(), end, number);
  if (fault != std::errc() || next != end || number < 0) return std::nullopt;
  if (kerf::format("{}{}", prefix, number) != name) return std::nullopt;
  return number;
}

std::vector<std::string> names_in(const fs::path& folder, std::error_code& refused) {
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, refused); !refused && at != fs::directory_iterator();
       at.increment(refused))
    names.push_back(at->path().filename().string());
  return names;
}

}  // namespace kerf::schedmp
