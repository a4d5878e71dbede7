// Bytes that an archive has as they are, with their CRC-32.
//
// The first kilobytes are read unchecked, so that a header costs a header; the first read beyond
// them goes over all of them once, a piece at a time, and none is kept. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "apps/data/byte_source.h"

namespace kerf::apps {

class StoredBytes : public StretchOfBytes {
 public:
  using StretchOfBytes::StretchOfBytes;

  void read(size_t offset, std::span<std::byte> to) const override;
  // Throws Error{kUsage} at the origin where the bytes are not those of the checksum.
  void prepare() const override;

 private:
  mutable std::once_flag once_;
};

}  // namespace kerf::apps
