#include "apps/data/gzip_file.h"

#include <zlib.h>

#include <string_view>

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

GzipFile::GzipFile(std::filesystem::path path, std::string way_out)
    : path_(std::move(path)), way_out_(std::move(way_out)) {
  compressed_ = runtime::read_file(path_, kMaxCompressed);
  const std::string_view magic = "\x1f\x8b";
  if (!std::string_view(compressed_).starts_with(magic.substr(0, compressed_.size())))
    fail("it is no gzip file (expected one that begins with 1f 8b)");
  if (compressed_.size() < kSmallest)
    fail(format("it is truncated: {} bytes are no whole gzip file", compressed_.size()));
  checksum_ = little_endian(compressed_, compressed_.size() - 8);
  size_ = little_endian(compressed_, compressed_.size() - 4);
}

void GzipFile::fail(const std::string& what) const {
  throw Error(ErrorCode::kUsage, format("{}; {}", what, way_out_), path_.string());
}

std::vector<uint8_t> GzipFile::head(size_t bytes) const {
  std::vector<uint8_t> to(bytes);
  Inflater inflater;
  const int answer = inflater.run(compressed_, to);
  if (answer != Z_STREAM_END && answer != Z_BUF_ERROR && answer != Z_OK)
    fail("it is damaged: its first bytes do not decompress");
  if (inflater.stream.avail_out != 0)
    fail(format("it is truncated: expected at least {} bytes of contents, found {}", bytes,
                bytes - inflater.stream.avail_out));
  return to;
}

std::vector<uint8_t> GzipFile::inflate(size_t announced) const {
  if (announced > kBestRatio * compressed_.size())
    fail(format(
        "it is truncated or damaged: its header announces {} bytes, which {} compressed bytes "
        "cannot hold",
        announced, compressed_.size()));
  std::vector<uint8_t> to(announced);
  Inflater inflater;
  const int answer = inflater.run(compressed_, to);
  const size_t found = announced - inflater.stream.avail_out;
  if (answer == Z_DATA_ERROR && inflater.stream.avail_out == 0)
    fail("it is damaged: its contents do not match their checksum");
  if (answer == Z_DATA_ERROR)
    fail(
        format("it is damaged: after {} of the {} bytes that its header announces, it does not "
               "decompress",
               found, announced));
  if (answer == Z_STREAM_END && found < announced)
    fail(format("it is damaged: its header announces {} bytes, found {}", announced, found));
  if (answer != Z_STREAM_END && inflater.stream.avail_in == 0)
    fail(format("it is truncated: its header announces {} bytes, found {}{}", announced, found,
                found < announced ? "" : " but not the file's end"));
  if (answer != Z_STREAM_END)
    fail(format("it is damaged: more bytes follow than the {} that its header announces",
                announced));
  if (inflater.stream.avail_in != 0)
    fail(format("it is damaged: {} bytes follow after its end", inflater.stream.avail_in));
  return to;
}

}  // namespace kerf::apps
