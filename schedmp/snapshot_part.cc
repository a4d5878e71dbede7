#include "schedmp/snapshot_part.h"

#include <algorithm>
#include <fstream>

#include "runtime/file.h"

namespace kerf::schedmp {

namespace {

constexpr size_t kPiece = size_t{16} << 20;

SnapshotPart part_of(std::string_view bytes) {
  return {static_cast<int64_t>(bytes.size()), runtime::crc32c(bytes)};
}

[[noreturn]] void refuse(const PlacedPart& placed) {
  throw Error(ErrorCode::kUsage, "it is not what the snapshot's run wrote", placed.file);
}

}  // namespace

SnapshotPart write_part(const std::filesystem::path& path, std::string_view bytes,
                        const Alive& alive) {
  runtime::AtomicFile file(path);
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    file.write(bytes.substr(at, kPiece));
    if (alive) alive();
  }
  file.commit();
  return part_of(bytes);
}

SnapshotPart commit_part(const std::filesystem::path& path, std::string_view bytes,
                         const Alive& alive) {
  try {
    return write_part(path, bytes, alive);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    return kNoRoom;
  }
}

std::string read_part(const PlacedPart& placed, const Alive& alive) {
  std::error_code none;
  const auto size = std::filesystem::file_size(placed.file, none);
  if (none || placed.part.bytes < 0 || size != static_cast<uint64_t>(placed.part.bytes))
    refuse(placed);
  std::ifstream file(placed.file, std::ios::binary);
  std::string bytes(static_cast<size_t>(size), '\0');
  for (size_t at = 0; at < bytes.size() && file; at += kPiece) {
    file.read(bytes.data() + at, static_cast<std::streamsize>(std::min(kPiece, bytes.size() - at)));
    if (alive) alive();
  }
  if (!file || part_of(bytes) != placed.part) refuse(placed);
  return bytes;
}

void throw_no_snapshot() { throw Error(ErrorCode::kUsage, "this program keeps no snapshots"); }

}  // namespace kerf::schedmp
