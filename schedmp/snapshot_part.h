// One file of a snapshot: what one half of a program holds.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "schedmp/worker_request.h"

namespace kerf::schedmp {

// Throws Error{kUnavailable} that names the file.
SnapshotPart write_part(const std::filesystem::path& file, std::string_view bytes);
// Throws Error{kUsage} that names the file where it is not what was written.
std::string read_part(const PlacedPart& placed);

// Of a half whose program keeps no snapshots.
[[noreturn]] void throw_no_snapshot();

}  // namespace kerf::schedmp
