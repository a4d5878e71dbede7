// IDX files, the format of MNIST and its relatives: a big-endian header, then unsigned bytes.
//
//   0  0 0 8 RANK      magic: type 8 is unsigned byte
//   4  extents         RANK numbers of 32 bits
//   .. elements        row-major
//
// Pure functions of bytes from outside; they check everything.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kerf::apps {

struct IdxHeader {
  std::vector<int64_t> extents;

  size_t bytes() const { return 4 + 4 * extents.size(); }  // of the header
  int64_t elements() const;
  // Of the whole file.
  size_t file_bytes() const { return bytes() + static_cast<size_t>(elements()); }
};

// The bytes that a header of this rank takes.
constexpr size_t idx_header_bytes(int rank) { return 4 + 4 * static_cast<size_t>(rank); }

// Throws Error{kUsage} that names `origin` unless `head` begins with the header of an array of
// unsigned bytes of this rank, with at least one and at most 2^31 elements.
IdxHeader parse_idx_header(std::span<const uint8_t> head, int rank, const std::string& origin);

}  // namespace kerf::apps
