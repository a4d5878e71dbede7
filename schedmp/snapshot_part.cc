#include "schedmp/snapshot_part.h"

#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::schedmp {

namespace {

constexpr size_t kMostBytes = size_t{1} << 40;

SnapshotPart part_of(std::string_view bytes) {
  return {static_cast<int64_t>(bytes.size()), runtime::crc32c(bytes)};
}

}  // namespace

SnapshotPart write_part(const std::filesystem::path& file, std::string_view bytes) {
  runtime::write_file_atomic(file, bytes);
  return part_of(bytes);
}

std::string read_part(const PlacedPart& placed) {
  std::string bytes = runtime::read_file(placed.file, kMostBytes);
  if (part_of(bytes) != placed.part)
    throw Error(ErrorCode::kUsage, "it is not what the snapshot's run wrote", placed.file);
  return bytes;
}

void throw_no_snapshot() { throw Error(ErrorCode::kUsage, "this program keeps no snapshots"); }

}  // namespace kerf::schedmp
