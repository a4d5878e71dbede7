#include "apps/data/byte_source.h"

#include <zlib.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/error.h"

namespace kerf::apps {

namespace {

// Up to so many bytes all count for a checksum; of more, so many pieces of this size.
constexpr size_t kWholeChecksum = size_t{64} << 20;
constexpr size_t kPieces = 256;
constexpr size_t kPieceBytes = size_t{64} << 10;

uint32_t checksum_of(uint32_t so_far, std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(
      crc32(so_far, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

}  // namespace

FileBytes::FileBytes(const std::filesystem::path& path, Working working)
    : working_(std::move(working)), file_(path) {}

void FileBytes::read(size_t offset, std::span<std::byte> to) const {
  if (working_) working_();
  file_.read(offset, to, ErrorCode::kUsage);
}

uint32_t FileBytes::checksum() const {
  const bool whole = size() <= kWholeChecksum;
  const size_t pieces = whole ? (size() + kPieceBytes - 1) / kPieceBytes : kPieces;
  std::vector<std::byte> piece(kPieceBytes);
  const std::string length = std::to_string(size());
  uint32_t sum = checksum_of(0, std::as_bytes(std::span(length)));
  for (size_t i = 0; i < pieces; ++i) {
    const size_t at = whole ? i * kPieceBytes : (size() - kPieceBytes) / (kPieces - 1) * i;
    const auto part = std::span(piece).first(std::min(kPieceBytes, size() - at));
    read(at, part);
    sum = checksum_of(sum, part);
  }
  return sum;
}

StretchOfBytes::StretchOfBytes(std::shared_ptr<const ByteSource> whole, size_t offset, size_t size,
                               std::string origin, uint32_t checksum)
    : whole_(std::move(whole)),
      offset_(offset),
      size_(size),
      origin_(std::move(origin)),
      checksum_(checksum) {
  KERF_CHECK(offset <= whole_->size() && size <= whole_->size() - offset, "{} of {}", origin_,
             whole_->origin());
}

void StretchOfBytes::read(size_t offset, std::span<std::byte> to) const {
  KERF_CHECK(offset <= size_ && to.size() <= size_ - offset, "bytes of {}", origin_);
  whole_->read(offset_ + offset, to);
}

std::string read_text(const ByteSource& source, size_t offset, size_t size) {
  if (offset > source.size() || size > source.size() - offset)
    throw Error(ErrorCode::kUsage,
                format("it is truncated: expected {} bytes from byte {} on, it has {} in all", size,
                       offset, source.size()),
                source.origin());
  std::string text(size, '\0');
  source.read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace kerf::apps
