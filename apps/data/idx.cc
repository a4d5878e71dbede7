#include "apps/data/idx.h"

#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr int64_t kMostElements = int64_t{1} << 31;
constexpr uint8_t kUnsignedByte = 8;

uint32_t big_endian(std::span<const uint8_t> bytes) {
  uint32_t value = 0;
  for (const uint8_t byte : bytes.first(4)) value = value << 8 | byte;
  return value;
}

}  // namespace

int64_t IdxHeader::elements() const {
  int64_t product = 1;
  for (const int64_t extent : extents) product *= extent;
  return product;
}

IdxHeader parse_idx_header(std::span<const uint8_t> head, int rank, const std::string& origin) {
  const auto fail = [&](const std::string& what) { throw Error(ErrorCode::kUsage, what, origin); };
  if (head.size() < idx_header_bytes(rank))
    fail(format("it is truncated: expected an IDX header of {} bytes, found {}",
                idx_header_bytes(rank), head.size()));
  const uint32_t expected = static_cast<uint32_t>(kUnsignedByte) << 8 | static_cast<uint32_t>(rank);
  const uint32_t magic = big_endian(head);
  if (magic != expected)
    fail(format("wrong magic number: expected {:08x} (IDX, unsigned bytes, {} axes), found {:08x}",
                expected, rank, magic));
  IdxHeader header;
  int64_t elements = 1;
  for (int axis = 0; axis < rank; ++axis) {
    const int64_t extent = big_endian(head.subspan(4 + 4 * static_cast<size_t>(axis)));
    if (extent == 0) fail(format("axis {} is empty", axis));
    if (elements > kMostElements / extent)
      fail(format("its header claims more than {} elements", kMostElements));
    elements *= extent;
    header.extents.push_back(extent);
  }
  return header;
}

}  // namespace kerf::apps
