// Bytes that a file has in compressed form, by zlib: a gzip file of one member or several, or a
// member of a zip archive.
//
// The first kilobytes are inflated alone where no more is read, so that a header costs a header;
// the first read beyond them inflates all into memory, which grows with what there is, whatever the
// file claims. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "apps/data/byte_source.h"

namespace kerf::apps {

// How deflate's bytes are wrapped.
enum class Wrapping : uint8_t { kGzip, kNone };

class InflatedBytes : public ByteSource {
 public:
  // `size` bytes and their CRC-32 are what the file claims of the contents, `compressed` holds.
  // Throws Error{kUsage} at `origin` where it cannot.
  InflatedBytes(std::shared_ptr<const ByteSource> compressed, size_t size, uint32_t checksum,
                Wrapping wrapping, std::string origin);

  const std::string& origin() const override { return origin_; }
  size_t size() const override { return size_; }
  void read(size_t offset, std::span<std::byte> to) const override;
  uint32_t checksum() const override { return checksum_; }
  void prepare() const override;
  int64_t held_bytes() const override { return held_; }

 private:
  void inflate_head() const;
  void inflate_all() const;

  std::shared_ptr<const ByteSource> compressed_;
  size_t size_;
  uint32_t checksum_;
  Wrapping wrapping_;
  std::string origin_;
  mutable std::once_flag head_once_;
  mutable std::once_flag all_once_;
  mutable std::vector<std::byte> head_;
  mutable std::vector<std::unique_ptr<std::byte[]>> all_;  // in pieces
  mutable std::atomic<int64_t> held_ = 0;
};

// The contents of a gzip file. Of one member, as large as its last four bytes say; a file that may
// have several, as pigz and bgzip write them, is gone through once. Throws Error{kUsage} at the
// source's origin.
std::shared_ptr<const ByteSource> open_gzip(const std::shared_ptr<const ByteSource>& file);

}  // namespace kerf::apps
