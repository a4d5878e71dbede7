#include "apps/data/inflated_bytes.h"

#include <zlib.h>

#include <algorithm>
#include <array>

#include "runtime/device.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr size_t kHeadBytes = size_t{64} << 10;
constexpr size_t kCompressedPiece = size_t{64} << 10;
constexpr size_t kInflatedPiece = size_t{1} << 20;
constexpr uint64_t kMostRatio = 1032;  // of deflate
constexpr size_t kLeastGzip = 20;      // header 10, empty block 2, trailer 8

// Ends zlib's state with the scope.
struct InflateState {
  z_stream stream{};
  explicit InflateState(Wrapping wrapping) {
    if (inflateInit2(&stream, wrapping == Wrapping::kGzip ? 16 + MAX_WBITS : -MAX_WBITS) != Z_OK)
      throw Error(ErrorCode::kUnavailable, "zlib has no memory");
  }
  InflateState(const InflateState&) = delete;
  InflateState& operator=(const InflateState&) = delete;
  ~InflateState() { inflateEnd(&stream); }
};

}  // namespace

InflatedBytes::InflatedBytes(std::shared_ptr<const ByteSource> compressed, size_t size,
                             uint32_t checksum, Wrapping wrapping, std::string origin)
    : compressed_(std::move(compressed)),
      size_(size),
      checksum_(checksum),
      wrapping_(wrapping),
      origin_(std::move(origin)) {
  if (size_ / kMostRatio > compressed_->size())
    fail(format(
        "it is truncated or damaged: it claims {} bytes, which {} compressed bytes cannot hold",
        size_, compressed_->size()));
}

void InflatedBytes::fail(const std::string& what) const {
  throw Error(ErrorCode::kUsage,
              what + "; copy it anew" +
                  (wrapping_ == Wrapping::kGzip
                       ? ", or gunzip it, if it has several members, as pigz and bgzip write them"
                       : ""),
              origin_);
}

void InflatedBytes::inflate(size_t bytes,
                            const std::function<std::span<std::byte>(size_t made)>& room) const {
  InflateState state(wrapping_);
  std::array<std::byte, kCompressedPiece> piece;
  size_t read = 0;
  size_t made = 0;
  uLong sum = 0;
  int answer = Z_OK;
  // One byte more than all would be too many.
  std::byte beyond{};
  const bool all = bytes == size_;
  while (answer != Z_STREAM_END && (made < bytes || all)) {
    if (state.stream.avail_in == 0) {
      const auto part = std::span(piece).first(std::min(piece.size(), compressed_->size() - read));
      if (part.empty()) fail(format("it is truncated: it claims {} bytes, found {}", size_, made));
      compressed_->read(read, part);
      read += part.size();
      state.stream.next_in = reinterpret_cast<Bytef*>(part.data());
      state.stream.avail_in = static_cast<uInt>(part.size());
    }
    const bool full = made == bytes;
    const std::span<std::byte> to = full ? std::span(&beyond, 1) : room(made);
    state.stream.next_out = reinterpret_cast<Bytef*>(to.data());
    state.stream.avail_out = static_cast<uInt>(to.size());
    answer = ::inflate(&state.stream, Z_NO_FLUSH);
    if (answer != Z_OK && answer != Z_STREAM_END && answer != Z_BUF_ERROR)
      fail(format("it is damaged: it does not decompress after {} of {} bytes", made, size_));
    const size_t fresh = to.size() - state.stream.avail_out;
    if (full && fresh > 0)
      fail(format("it is damaged: it holds more than the {} bytes that it claims", size_));
    if (full) continue;
    sum = crc32(sum, reinterpret_cast<const Bytef*>(to.data()), static_cast<uInt>(fresh));
    made += fresh;
  }
  if (made < bytes) fail(format("it is damaged: it claims {} bytes, found {}", size_, made));
  if (!all) return;
  if (sum != checksum_) fail("it is damaged: its contents do not match their checksum");
  if (const size_t behind = state.stream.avail_in + (compressed_->size() - read); behind != 0)
    fail(format("it is damaged: {} bytes follow after its end", behind));
}

void InflatedBytes::prepare() const {
  std::call_once(all_once_, [this] {
    const size_t memory = runtime::make_cpu_device()->memory().capacity;
    if (memory > 0 && size_ > memory)
      throw Error(ErrorCode::kUsage,
                  format("it takes {} bytes of memory, and this host has {}; decompress the file, "
                         "so that it is read in pieces",
                         size_, memory),
                  origin_);
    std::vector<std::unique_ptr<std::byte[]>> pieces;
    inflate(size_, [&](size_t made) {
      const size_t piece = made / kInflatedPiece;
      const size_t bytes = std::min(kInflatedPiece, size_ - piece * kInflatedPiece);
      if (piece == pieces.size()) pieces.emplace_back(new std::byte[bytes]);
      return std::span(pieces[piece].get(), bytes).subspan(made % kInflatedPiece);
    });
    all_ = std::move(pieces);
    held_ += static_cast<int64_t>(size_);
  });
}

void InflatedBytes::read(size_t offset, std::span<std::byte> to) const {
  KERF_CHECK(offset <= size_ && to.size() <= size_ - offset, "bytes of {}", origin_);
  if (offset + to.size() <= kHeadBytes && size_ > kHeadBytes &&
      held_ < static_cast<int64_t>(size_)) {
    std::call_once(head_once_, [this] {
      std::vector<std::byte> head(kHeadBytes);
      inflate(kHeadBytes, [&](size_t made) { return std::span(head).subspan(made); });
      head_ = std::move(head);
      held_ += static_cast<int64_t>(kHeadBytes);
    });
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

std::shared_ptr<const ByteSource> open_gzip(std::shared_ptr<const ByteSource> file) {
  const std::string& origin = file->origin();
  if (file->size() < kLeastGzip)
    throw Error(ErrorCode::kUsage,
                format("it is truncated: {} bytes are no whole gzip file", file->size()), origin);
  if (read_text(*file, 0, 2) != "\x1f\x8b")
    throw Error(ErrorCode::kUsage, "it is no gzip file (expected one that begins with 1f 8b)",
                origin);
  const std::string trailer = read_text(*file, file->size() - 8, 8);
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(trailer[at + i]);
    return value;
  };
  return std::make_shared<InflatedBytes>(file, number(4), number(0), Wrapping::kGzip, origin);
}

}  // namespace kerf::apps
