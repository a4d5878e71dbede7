// gzip files, read defensively: the home of zlib. Immutable after construction; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kerf::apps {

// One compressed file of one gzip member, kept compressed: opening it costs one read. Throws
// Error{kUsage} that names the file if it is absent, no gzip file, cut short, damaged or of another
// size than expected; `way_out` then says what to do.
class GzipFile {
 public:
  GzipFile(std::filesystem::path path, std::string way_out);

  const std::filesystem::path& path() const { return path_; }
  // As the file itself claims; inflate() proves them.
  uint32_t size() const { return size_; }
  uint32_t checksum() const { return checksum_; }                 // CRC-32 of the contents
  size_t compressed_bytes() const { return compressed_.size(); }  // held in memory
  // The first `bytes` of the contents.
  std::vector<uint8_t> head(size_t bytes) const;
  // All of them, which must be the `announced` bytes that the contents' own header speaks of: the
  // file's claim lies in its last bytes, so it is nonsense when the file was cut short.
  std::vector<uint8_t> inflate(size_t announced) const;

 private:
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path path_;
  std::string way_out_;
  std::string compressed_;
  uint32_t size_ = 0;
  uint32_t checksum_ = 0;
};

}  // namespace kerf::apps
