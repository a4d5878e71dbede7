// The wire: how a control message becomes bytes, and how bytes from outside become a message.
//
// The one home of Cereal. A type offers `template <class Archive> void serialize(Archive&)` and
// includes no Cereal. Every frame starts with a fixed header of kHeaderBytes, little-endian:
//
//   0  magic    u32  "KERF"        16  sequence  u64
//   4  version  u16  kProtocol     24  length    u32  payload bytes
//   6  type     u16                28  checksum  u32  CRC-32C of header bytes 0..27 and payload
//   8  epoch    u32
//   12 reserved u32  0
//
// parse_frame checks magic, version, length and checksum before Cereal sees a byte; decode() checks
// every count against the bytes that are left, limits depth, and refuses trailing bytes. Neither
// crashes, hangs or allocates more than a small multiple of its input on any input.
#pragma once

#include <cereal/cereal.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/error.h"

namespace kerf::runtime {

inline constexpr uint16_t kProtocol = 1;
inline constexpr size_t kHeaderBytes = 32;
inline constexpr size_t kMaxControlBytes = size_t{1} << 20;

struct FrameHeader {
  uint16_t type = 0;
  uint32_t epoch = 0;
  uint64_t sequence = 0;
};

struct Frame {
  FrameHeader header;
  std::string_view payload;  // into the bytes that were parsed
};

enum class FrameFault { kNone, kShort, kMagic, kVersion, kLength, kChecksum };

// CRC-32C (Castagnoli).
uint32_t crc32c(std::string_view bytes);

// Header and payload, ready to send. Throws Error{kInternal} if the payload exceeds `max_payload`.
std::string make_frame(const FrameHeader& header, std::string_view payload,
                       size_t max_payload = kMaxControlBytes);
// `fault` tells why the result is empty.
[[nodiscard]] std::optional<Frame> parse_frame(std::string_view bytes, FrameFault& fault,
                                               size_t max_payload = kMaxControlBytes);

// Cereal archive that appends little-endian bytes to a string.
class WireWriter : public cereal::OutputArchive<WireWriter, cereal::AllowEmptyClassElision> {
 public:
  WireWriter() : OutputArchive(this) {}
  void write(const void* data, size_t bytes) {
    text_.append(static_cast<const char*>(data), bytes);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Cereal archive over bounded bytes. Throws Error{kProtocol} on any excess.
class WireReader : public cereal::InputArchive<WireReader, cereal::AllowEmptyClassElision> {
 public:
  explicit WireReader(std::string_view bytes) : InputArchive(this), bytes_(bytes) {}
  void read(void* data, size_t bytes);
  // A count of elements of at least `least_bytes` each, checked against what is left.
  size_t read_count(size_t least_bytes);
  size_t left() const { return bytes_.size(); }
  std::string_view take(size_t bytes);
  void enter();  // depth guard around containers
  void leave() { --depth_; }

 private:
  std::string_view bytes_;
  int depth_ = 0;
};

template <class T>
std::string encode(const T& value) {
  WireWriter writer;
  writer(value);
  return writer.take();
}

// Throws Error{kProtocol} if `bytes` is not exactly one T.
template <class T>
T decode(std::string_view bytes) {
  T value{};
  WireReader reader(bytes);
  reader(value);
  if (reader.left() != 0)
    throw Error(ErrorCode::kProtocol, kerf::format("{} bytes too many", reader.left()));
  return value;
}

// How the archives treat arithmetic values, strings, vectors, maps and pairs.
template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
void CEREAL_SAVE_FUNCTION_NAME(WireWriter& writer, const T& value) {
  writer.write(&value, sizeof value);
}
template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
void CEREAL_LOAD_FUNCTION_NAME(WireReader& reader, T& value) {
  reader.read(&value, sizeof value);
}

}  // namespace kerf::runtime
