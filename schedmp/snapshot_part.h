// One file of a snapshot: what one half of a program holds.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "runtime/error.h"
#include "schedmp/worker_request.h"

namespace kerf::schedmp {

// Called now and then meanwhile.
using Alive = std::function<void()>;

// Throws Error{kUnavailable} that names the file.
SnapshotPart write_part(const std::filesystem::path& file, std::string_view bytes,
                        const Alive& alive = {});
// The same to a file in memory; kNoRoom where that cannot be.
SnapshotPart commit_part(const std::filesystem::path& file, std::string_view bytes,
                         const Alive& alive = {});
// Throws Error{kUsage} that names the file where it is not what was written.
std::string read_part(const PlacedPart& placed, const Alive& alive = {});

// Of a half whose program keeps no snapshots.
[[noreturn]] void throw_no_snapshot();
// Gives a half what it held. Throws Error{kUsage} that names the file where the half cannot read
// it.
template <class Half>
void restore_from(const PlacedPart& placed, Half& half, const Alive& alive = {}) {
  const std::string bytes = read_part(placed, alive);
  try {
    half.restore(bytes);
  } catch (const Error& error) {
    throw Error(ErrorCode::kUsage, error.what(), placed.file);
  }
}

}  // namespace kerf::schedmp
