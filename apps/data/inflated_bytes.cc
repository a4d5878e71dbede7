#include "apps/data/inflated_bytes.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <utility>

#include "apps/data/host_memory.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr size_t kHeadBytes = size_t{64} << 10;
constexpr size_t kCompressedPiece = size_t{64} << 10;
constexpr size_t kInflatedPiece = size_t{1} << 20;
constexpr uint64_t kMostRatio = 1032;  // of deflate
constexpr size_t kLeastGzip = 20;      // header 10, empty block 2, trailer 8
// What a gzip member begins with (RFC 1952): two bytes of its own, deflate, flags, of which three
// are 0, four of a time, what deflate was asked for and the system that did it.
constexpr std::string_view kGzipMagic = "\x1f\x8b\x08";
constexpr size_t kGzipHeader = 10;
constexpr uint8_t kMostFlags = 0x1f;
constexpr uint8_t kMostAsked = 4;
constexpr uint8_t kMostSystem = 13;
constexpr uint8_t kUnknownSystem = 255;

[[noreturn]] void refuse_compressed(const std::string& what, const std::string& origin) {
  throw Error(ErrorCode::kUsage, what + "; copy it anew", origin);
}

uint32_t with_bytes(uint32_t sum, std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(
      crc32(sum, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

// Inflates from the beginning on, a gzip file member after member.
class Inflater {
 public:
  Inflater(const ByteSource& from, Wrapping wrapping, const std::string& origin)
      : from_(from), wrapping_(wrapping), origin_(origin) {
    if (inflateInit2(&stream_, wrapping == Wrapping::kGzip ? 16 + MAX_WBITS : -MAX_WBITS) != Z_OK)
      throw Error(ErrorCode::kUnavailable, "zlib has no memory");
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  // How many bytes were put into `to`, which has room; 0: there are no more.
  size_t next(std::span<std::byte> to) {
    while (!ended_) {
      stream_.next_out = reinterpret_cast<Bytef*>(to.data());
      stream_.avail_out = static_cast<uInt>(to.size());
      const int answer = ::inflate(&stream_, Z_NO_FLUSH);
      if (answer != Z_OK && answer != Z_STREAM_END && answer != Z_BUF_ERROR)
        refuse_compressed(format("it is damaged: it does not decompress after {} bytes", made_),
                          origin_);
      const size_t fresh = to.size() - stream_.avail_out;
      made_ += fresh;
      if (answer == Z_STREAM_END) end_member();
      if (fresh > 0) return fresh;
      // Only now: zlib may hold output of bytes that it has taken.
      if (!ended_ && stream_.avail_in == 0) refill();
    }
    return 0;
  }

 private:
  void refill() {
    const auto part = std::span(piece_).first(std::min(piece_.size(), from_.size() - read_));
    if (part.empty())
      refuse_compressed(
          format("it is truncated: it ends within its contents, after {} bytes", made_), origin_);
    from_.read(read_, part);
    read_ += part.size();
    stream_.next_in = reinterpret_cast<Bytef*>(part.data());
    stream_.avail_in = static_cast<uInt>(part.size());
  }
  void end_member() {
    const size_t behind = stream_.avail_in + (from_.size() - read_);
    ended_ = behind == 0;
    if (ended_) return;
    if (wrapping_ == Wrapping::kNone)
      refuse_compressed(format("it is damaged: {} bytes follow after its end", behind), origin_);
    KERF_CHECK(inflateReset(&stream_) == Z_OK, "zlib's state");
  }

  const ByteSource& from_;
  const Wrapping wrapping_;
  const std::string& origin_;
  z_stream stream_{};
  std::array<std::byte, kCompressedPiece> piece_;
  size_t read_ = 0;  // of the compressed bytes
  size_t made_ = 0;
  bool ended_ = false;
};

bool is_gzip_header(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
  return text.starts_with(kGzipMagic) && byte(3) <= kMostFlags && byte(8) <= kMostAsked &&
         (byte(9) <= kMostSystem || byte(9) == kUnknownSystem);
}

// Whether a second member might begin somewhere: those bytes may also stand in the first.
bool may_have_several(const ByteSource& file) {
  constexpr size_t kOverlap = kGzipHeader - 1;
  std::vector<std::byte> piece(kCompressedPiece);
  for (size_t at = kLeastGzip; at + kOverlap < file.size(); at += piece.size() - kOverlap) {
    const auto part = std::span(piece).first(std::min(piece.size(), file.size() - at));
    file.read(at, part);
    const std::string_view text(reinterpret_cast<const char*>(part.data()), part.size());
    for (size_t found = text.find(kGzipMagic); found < text.size() - kOverlap;
         found = text.find(kGzipMagic, found + 1))
      if (is_gzip_header(text.substr(found, kGzipHeader))) return true;
  }
  return false;
}

struct Contents {
  size_t bytes = 0;
  uint32_t checksum = 0;
};

Contents contents_of_all_members(const ByteSource& file) {
  const size_t memory = memory_of_host();
  Inflater inflater(file, Wrapping::kGzip, file.origin());
  std::vector<std::byte> piece(kInflatedPiece);
  Contents all;
  while (const size_t fresh = inflater.next(piece)) {
    all.bytes += fresh;
    all.checksum = with_bytes(all.checksum, std::span(piece).first(fresh));
    if (memory > 0 && all.bytes > memory)
      throw Error(ErrorCode::kUsage,
                  format("its contents take more than the {} bytes of memory of this host; "
                         "decompress the file, so that it is read in pieces",
                         memory),
                  file.origin());
  }
  return all;
}

}  // namespace

InflatedBytes::InflatedBytes(std::shared_ptr<const ByteSource> compressed, size_t size,
                             uint32_t checksum, Wrapping wrapping, std::string origin)
    : compressed_(std::move(compressed)),
      size_(size),
      checksum_(checksum),
      wrapping_(wrapping),
      origin_(std::move(origin)) {
  if (size_ / kMostRatio > compressed_->size())
    refuse_compressed(
        format(
            "it is truncated or damaged: it claims {} bytes, which {} compressed bytes cannot hold",
            size_, compressed_->size()),
        origin_);
}

void InflatedBytes::inflate_head() const {
  Inflater inflater(*compressed_, wrapping_, origin_);
  std::vector<std::byte> head(kHeadBytes);
  size_t made = 0;
  while (made < head.size()) {
    const size_t fresh = inflater.next(std::span(head).subspan(made));
    if (fresh == 0)
      refuse_compressed(format("it is damaged: it claims {} bytes, found {}", size_, made),
                        origin_);
    made += fresh;
  }
  head_ = std::move(head);
  held_ += static_cast<int64_t>(kHeadBytes);
}

void InflatedBytes::inflate_all() const {
  Inflater inflater(*compressed_, wrapping_, origin_);
  std::vector<std::unique_ptr<std::byte[]>> pieces;
  size_t made = 0;
  uint32_t sum = 0;
  while (made < size_) {
    const size_t piece = made / kInflatedPiece;
    const size_t bytes = std::min(kInflatedPiece, size_ - piece * kInflatedPiece);
    if (piece == pieces.size()) pieces.emplace_back(new std::byte[bytes]);
    const auto room = std::span(pieces[piece].get(), bytes).subspan(made % kInflatedPiece);
    const size_t fresh = inflater.next(room);
    if (fresh == 0)
      refuse_compressed(format("it is damaged: it claims {} bytes, found {}", size_, made),
                        origin_);
    sum = with_bytes(sum, room.first(fresh));
    made += fresh;
  }
  std::byte beyond{};
  if (inflater.next({&beyond, 1}) != 0)
    refuse_compressed(
        format("it is damaged: it holds more than the {} bytes that it claims", size_), origin_);
  if (sum != checksum_)
    refuse_compressed("it is damaged: its contents do not match their checksum", origin_);
  all_ = std::move(pieces);
  held_ += static_cast<int64_t>(size_);
}

void InflatedBytes::prepare() const {
  std::call_once(all_once_, [this] {
    const size_t memory = memory_of_host();
    if (memory > 0 && size_ > memory)
      throw Error(ErrorCode::kUsage,
                  format("it takes {} bytes of memory, and this host has {}; decompress the file, "
                         "so that it is read in pieces",
                         size_, memory),
                  origin_);
    inflate_all();
  });
}

void InflatedBytes::read(size_t offset, std::span<std::byte> to) const {
  KERF_CHECK(offset <= size_ && to.size() <= size_ - offset, "bytes of {}", origin_);
  if (offset + to.size() <= kHeadBytes && size_ > kHeadBytes &&
      held_ < static_cast<int64_t>(size_)) {
    std::call_once(head_once_, [this] { inflate_head(); });
    std::copy_n(head_.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
    return;
  }
  prepare();
  while (!to.empty()) {
    const size_t within = offset % kInflatedPiece;
    const size_t count = std::min(to.size(), kInflatedPiece - within);
    std::copy_n(all_[offset / kInflatedPiece].get() + within, count, to.begin());
    offset += count;
    to = to.subspan(count);
  }
}

std::shared_ptr<const ByteSource> open_gzip(const std::shared_ptr<const ByteSource>& file) {
  const std::string& origin = file->origin();
  if (file->size() < kLeastGzip)
    throw Error(ErrorCode::kUsage,
                format("it is truncated: {} bytes are no whole gzip file", file->size()), origin);
  if (read_text(*file, 0, 2) != kGzipMagic.substr(0, 2))
    throw Error(ErrorCode::kUsage, "it is no gzip file (expected one that begins with 1f 8b)",
                origin);
  Contents contents;
  if (may_have_several(*file)) {
    contents = contents_of_all_members(*file);
  } else {
    const std::string trailer = read_text(*file, file->size() - 8, 8);
    const auto number = [&](size_t at) {
      uint32_t value = 0;
      for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(trailer[at + i]);
      return value;
    };
    contents = {number(4), number(0)};
  }
  return std::make_shared<InflatedBytes>(file, contents.bytes, contents.checksum, Wrapping::kGzip,
                                         origin);
}

}  // namespace kerf::apps
