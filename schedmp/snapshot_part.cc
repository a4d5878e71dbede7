#include "schedmp/snapshot_part.h"

#include <algorithm>
#include <span>
#include <utility>

#include "runtime/crc32c.h"

namespace kerf::schedmp {

namespace {

constexpr size_t kChunk = size_t{16} << 20;
// A disk has it within a few seconds, in which nothing can be told of progress.
constexpr int64_t kUnsettled = int64_t{256} << 20;

[[noreturn]] void refuse(const PlacedPart& placed) {
  throw Error(ErrorCode::kUsage, "it is not what its run wrote", placed.file);
}

// Calls `take` with chunk after chunk of the file, which is as long as it was.
template <class Take>
void read_chunks(runtime::Store& store, const PlacedPart& placed, const Alive& alive,
                 const Take& take) {
  const auto file = store.open(placed.file);
  if (placed.part.bytes < 0 || file->bytes() != static_cast<uint64_t>(placed.part.bytes))
    refuse(placed);
  std::string chunk;
  uint32_t checksum = 0;
  for (uint64_t at = 0; at < file->bytes(); at += chunk.size()) {
    chunk.resize(static_cast<size_t>(std::min<uint64_t>(kChunk, file->bytes() - at)));
    file->read(at, std::as_writable_bytes(std::span(chunk)), ErrorCode::kUsage);
    checksum = runtime::extend_crc32c(checksum, chunk);
    take(chunk);
    if (alive) alive();
  }
  if (checksum != placed.part.checksum) refuse(placed);
}

}  // namespace

PartWriter::PartWriter(runtime::Store& store, const std::filesystem::path& path, Alive alive)
    : alive_(std::move(alive)) {
  attempt([&] { file_ = store.create(path); });
}

PartWriter::PartWriter(const std::filesystem::path& path, Alive alive) : alive_(std::move(alive)) {
  attempt([&] { file_ = runtime::LocalStore().create(path); });
}

template <class Act>
void PartWriter::attempt(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    file_.reset();
    saved_ = {kNoRoom, error.what()};
  }
}

void PartWriter::write(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size(); at += kChunk) {
    const std::string_view chunk = bytes.substr(at, kChunk);
    attempt([&] {
      if (failed()) return;
      file_->write(chunk);
      saved_.part.bytes += static_cast<int64_t>(chunk.size());
      saved_.part.checksum = runtime::extend_crc32c(saved_.part.checksum, chunk);
      if (saved_.part.bytes - settled_ < kUnsettled) return;
      file_->settle();
      settled_ = saved_.part.bytes;
    });
    if (alive_) alive_();
  }
}

SavedPart PartWriter::finish() {
  if (file_) attempt([&] { file_->commit(); });
  return saved_;
}

SavedPart write_part(PartWriter writer, std::string_view bytes) {
  writer.write(bytes);
  return writer.finish();
}

std::string read_parts(runtime::Store& store, const std::vector<PlacedPart>& parts,
                       const Alive& alive) {
  std::string bytes;
  for (const PlacedPart& placed : parts)
    read_chunks(store, placed, alive, [&](const std::string& chunk) { bytes += chunk; });
  return bytes;
}

void check_part(runtime::Store& store, const PlacedPart& placed, const Alive& alive) {
  read_chunks(store, placed, alive, [](const std::string&) {});
}

void throw_no_snapshot() { throw Error(ErrorCode::kUsage, "this program keeps no snapshots"); }

}  // namespace kerf::schedmp
