// Whose a folder is that is named as a checkpoint is (checkpoint_folder.h): other trainers name
// theirs so, too, and people put links there. What no run of Kerf wrote is neither counted nor gone
// on from, written into or removed. Functions of the file system; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace kerf::schedmp {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kSchedulerName = "scheduler";
inline constexpr std::string_view kOfWorker = "worker-";
// By which a manifest begins.
inline constexpr const char* kCheckpointKey = "kerf_checkpoint";

enum class CheckpointOwner : uint8_t {
  kNobody,   // nothing is there
  kKerf,     // its manifest says so, or nothing but what a run writes is in it
  kOthers,   // a link, a file, and any other folder
  kUnknown,  // the system does not let it be looked at
};

// Of a manifest no more than the beginning is read. A folder of Kerf's stays so without one, which
// is written last and removed first, and where that beginning is damaged and the rest is there.
CheckpointOwner owner_of(const std::filesystem::path& checkpoint);

// Whether it is a folder without anything that is named as what a run writes there.
bool has_room_beside(const std::filesystem::path& others);

// Of a file that a run writes into a checkpoint, or had begun to when it was killed
// (runtime::AtomicFile).
bool is_of_a_checkpoint(std::string_view name);
// What is behind the prefix, where that is a whole number without zeros before it.
std::optional<int64_t> number_behind(std::string_view prefix, std::string_view name);
// As many as the system tells.
std::vector<std::string> names_in(const std::filesystem::path& folder, std::error_code& refused);

}  // namespace kerf::schedmp
