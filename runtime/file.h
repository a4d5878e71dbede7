// Files: bounded reads and atomic writes. Thread-safe; no state.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace kerf::runtime {

// The whole file. Throws Error{kUsage} that names the path if it is absent, not a regular file or
// larger than `max_bytes`.
std::string read_file(const std::filesystem::path& path, size_t max_bytes = size_t{1} << 30);

// Write to a temporary beside `path`, fsync, rename, fsync the folder: a reader sees the old or the
// new file, never a part. Throws Error{kUnavailable} that names the path.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

}  // namespace kerf::runtime
