#include "apps/data/stored_bytes.h"

#include <zlib.h>

#include <algorithm>
#include <vector>

#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr size_t kUncheckedHead = size_t{64} << 10;
constexpr size_t kCheckedPiece = size_t{256} << 10;

}  // namespace

void StoredBytes::prepare() const {
  std::call_once(once_, [this] {
    std::vector<std::byte> piece(std::min(kCheckedPiece, size()));
    uLong sum = 0;
    for (size_t at = 0; at < size(); at += piece.size()) {
      const auto part = std::span(piece).first(std::min(piece.size(), size() - at));
      StretchOfBytes::read(at, part);
      sum = crc32(sum, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()));
    }
    if (sum != checksum())
      throw Error(ErrorCode::kUsage, "it is damaged: its contents do not match their checksum",
                  origin());
  });
}

void StoredBytes::read(size_t offset, std::span<std::byte> to) const {
  if (offset + to.size() > kUncheckedHead || size() <= kUncheckedHead) prepare();
  StretchOfBytes::read(offset, to);
}

}  // namespace kerf::apps
