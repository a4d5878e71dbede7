#include "apps/data/gzip_file.h"

#include <zlib.h>

#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

constexpr size_t kMaxCompressed = size_t{1} << 30;
constexpr size_t kSmallest = 20;       // header 10, empty block 2, trailer 8
constexpr uint64_t kBestRatio = 1032;  // of deflate
constexpr int kGzipOnly = 16 + MAX_WBITS;

uint32_t little_endian(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

// Ends zlib's state with the scope.
struct Inflater {
  z_stream stream{};
  Inflater() {
    if (inflateInit2(&stream, kGzipOnly) != Z_OK)
      throw Error(ErrorCode::kUnavailable, "zlib has no memory");
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }

  // Inflates from `from` into `to` until either ends. Returns zlib's answer.
  int run(const std::string& from, std::vector<uint8_t>& to) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data()));
    stream.avail_in = static_cast<uInt>(from.size());
    stream.next_out = to.data();
    stream.avail_out = static_cast<uInt>(to.size());
    return ::inflate(&stream, Z_FINISH);
  }
};

}  // namespace

GzipFile::GzipFile(std::filesystem::path path) : path_(std::move(path)) {
  compressed_ = runtime::read_file(path_, kMaxCompressed);
  if (compressed_.size() < kSmallest || compressed_[0] != '\x1f' || compressed_[1] != '\x8b')
    fail("it is no gzip file (expected one that begins with 1f 8b)");
  checksum_ = little_endian(compressed_, compressed_.size() - 8);
  size_ = little_endian(compressed_, compressed_.size() - 4);
}

void GzipFile::fail(const std::string& what) const {
  throw Error(ErrorCode::kUsage, what, path_.string());
}

std::vector<uint8_t> GzipFile::head(size_t bytes) const {
  std::vector<uint8_t> to(bytes);
  Inflater inflater;
  const int answer = inflater.run(compressed_, to);
  if (answer != Z_STREAM_END && answer != Z_BUF_ERROR && answer != Z_OK)
    fail("it is damaged: its first bytes do not decompress");
  if (inflater.stream.avail_out != 0)
    fail(format("it is too short: expected at least {} bytes, found {}", bytes,
                bytes - inflater.stream.avail_out));
  return to;
}

std::vector<uint8_t> GzipFile::inflate(size_t most) const {
  if (size_ > most)
    fail(format("it claims {} bytes of contents; expected at most {}", size_, most));
  if (size_ > kBestRatio * compressed_.size())
    fail(format(
        "it is truncated or damaged: it claims {} bytes of contents, but {} compressed bytes "
        "cannot hold so many",
        size_, compressed_.size()));
  std::vector<uint8_t> to(size_);
  Inflater inflater;
  const int answer = inflater.run(compressed_, to);
  if (answer == Z_DATA_ERROR) fail("it is damaged: its contents do not match their checksum");
  if (answer != Z_STREAM_END)
    fail(format("it is truncated or damaged: expected {} bytes of contents, found {}", size_,
                size_ - inflater.stream.avail_out));
  if (inflater.stream.avail_in != 0)
    fail(format("{} bytes follow after its end", inflater.stream.avail_in));
  return to;
}

}  // namespace kerf::apps
