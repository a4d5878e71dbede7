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
// crashes, hangs or allocates more than a small multiple of its input on any input: elements are
// made one at a time as their bytes are read, never by a count that was only claimed.
//
// What can travel: arithmetic values, bool (0 or 1), enums (any value of the underlying type: its
// range is for the type's owner to check), std::string, vector, map (keys ascending), pair, array,
// optional, and structs of these. Pointers of any kind do not compile. Values have no names or
// types on the wire.
//
// Threads: functions have no state; an archive belongs to one thread.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cereal/cereal.hpp>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/error.h"

namespace kerf::runtime {

inline constexpr uint16_t kProtocol = 3;
inline constexpr size_t kHeaderBytes = 32;
inline constexpr size_t kMaxControlBytes = size_t{1} << 20;
inline constexpr int kMaxWireDepth = 32;  // containers within containers

struct FrameHeader {
  uint16_t type = 0;
  uint32_t epoch = 0;
  uint64_t sequence = 0;
};

struct Frame {
  FrameHeader header;
  std::string_view payload;  // into the bytes that were parsed
};

// A reserved field that is not 0 is of another version.
enum class FrameFault { kNone, kShort, kMagic, kVersion, kLength, kChecksum };

std::string_view to_string(FrameFault fault);

// CRC-32C (Castagnoli).
uint32_t crc32c(std::string_view bytes);

// Header and payload, ready to send. Throws Error{kInternal} if the payload exceeds `max_payload`.
std::string make_frame(const FrameHeader& header, std::string_view payload,
                       size_t max_payload = kMaxControlBytes);
// `fault` tells why the result is empty.
[[nodiscard]] std::optional<Frame> parse_frame(std::string_view bytes, FrameFault& fault,
                                               size_t max_payload = kMaxControlBytes);

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

[[noreturn]] void throw_wire_too_deep(ErrorCode code);
[[noreturn]] void throw_wire_too_short(size_t wanted, size_t left);
[[noreturn]] void throw_wire_fault(std::string_view fault);
[[noreturn]] void throw_wire_count(size_t count);
// Turns the exception being handled into Error{kProtocol}.
[[noreturn]] void rethrow_as_protocol_error();

// Cereal archive that appends little-endian bytes to a string. Throws Error{kInternal} for what
// could not be read back.
class WireWriter : public cereal::OutputArchive<WireWriter> {
 public:
  WireWriter() : OutputArchive(this) { text_.reserve(128); }
  void write(const void* data, size_t bytes) {
    text_.append(static_cast<const char*>(data), bytes);
  }
  void write_count(size_t count) {
    if (count > std::numeric_limits<uint32_t>::max()) throw_wire_count(count);
    const auto small = static_cast<uint32_t>(count);
    write(&small, sizeof small);
  }
  void enter() {
    if (++depth_ > kMaxWireDepth) throw_wire_too_deep(ErrorCode::kInternal);
  }
  void leave() { --depth_; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  int depth_ = 0;
};

// Cereal archive over bounded bytes. Throws Error{kProtocol} on any excess.
class WireReader : public cereal::InputArchive<WireReader> {
 public:
  explicit WireReader(std::string_view bytes) : InputArchive(this), bytes_(bytes) {}
  void read(void* data, size_t bytes) {
    const std::string_view from = take(bytes);
    if (bytes > 0) std::copy_n(from.data(), bytes, static_cast<char*>(data));
  }
  std::string_view take(size_t bytes) {
    if (bytes > bytes_.size()) throw_wire_too_short(bytes, bytes_.size());
    const std::string_view taken = bytes_.substr(0, bytes);
    bytes_.remove_prefix(bytes);
    return taken;
  }
  // A count of elements of at least `least_bytes` (> 0) each, checked against what is left.
  size_t read_count(size_t least_bytes) {
    uint32_t count = 0;
    read(&count, sizeof count);
    if (count > left() / least_bytes) throw_wire_too_short(count * least_bytes, left());
    return count;
  }
  size_t left() const { return bytes_.size(); }
  void enter() {
    if (++depth_ > kMaxWireDepth) throw_wire_too_deep(ErrorCode::kProtocol);
  }
  void leave() { --depth_; }

 private:
  std::string_view bytes_;
  int depth_ = 0;
};

}  // namespace kerf::runtime

CEREAL_SETUP_ARCHIVE_TRAITS(kerf::runtime::WireReader, kerf::runtime::WireWriter)

namespace kerf::runtime {

// Throws Error{kInternal} if the value nests deeper than can be read back.
template <class T>
std::string encode(const T& value) {
  WireWriter writer;
  writer(value);
  return writer.take();
}

// Throws Error{kProtocol} if `bytes` is not exactly one T, whatever went wrong inside.
template <class T>
T decode(std::string_view bytes) {
  try {
    T value{};
    WireReader reader(bytes);
    reader(value);
    if (reader.left() != 0) throw_wire_fault("bytes are left over");
    return value;
  } catch (...) {
    rethrow_as_protocol_error();
  }
}

// ---- How the archives treat values. Cereal finds these by argument; nobody calls them.

// The least bytes of a T on the wire. 1 for structs: their vectors grow as elements arrive, so this
// only decides how early a lie is noticed. (A struct without members cannot be a vector's element.)
template <class T>
inline constexpr size_t kLeastWireBytes = 1;
template <class T>
requires(std::is_arithmetic_v<T> ||
         std::is_enum_v<T>) inline constexpr size_t kLeastWireBytes<T> = sizeof(T);
template <>
inline constexpr size_t kLeastWireBytes<std::string> = 4;
template <class T>
inline constexpr size_t kLeastWireBytes<std::vector<T>> = 4;
template <class K, class V>
inline constexpr size_t kLeastWireBytes<std::map<K, V>> = 4;
template <class A, class B>
inline constexpr size_t kLeastWireBytes<std::pair<A, B>> = kLeastWireBytes<A> + kLeastWireBytes<B>;

// Values whose bytes in memory are their bytes on the wire.
template <class T>
inline constexpr bool kFlatOnWire =
    (std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8) || std::is_enum_v<T>;

template <class Archive>
class WireDepth {
 public:
  explicit WireDepth(Archive& archive) : archive_(archive) { archive_.enter(); }
  WireDepth(const WireDepth&) = delete;
  WireDepth& operator=(const WireDepth&) = delete;
  ~WireDepth() { archive_.leave(); }

 private:
  Archive& archive_;
};

template <class T>
requires(kFlatOnWire<T> && !std::is_enum_v<T>)  // Cereal itself maps enums to their integers
    void CEREAL_SAVE_FUNCTION_NAME(WireWriter& writer, const T& value) {
  writer.write(&value, sizeof value);
}
template <class T>
requires(kFlatOnWire<T> && !std::is_enum_v<T>) void CEREAL_LOAD_FUNCTION_NAME(WireReader& reader,
                                                                              T& value) {
  reader.read(&value, sizeof value);
}

template <std::same_as<bool> T>
void CEREAL_SAVE_FUNCTION_NAME(WireWriter& writer, const T& value) {
  const uint8_t byte = value ? 1 : 0;
  writer.write(&byte, 1);
}
template <std::same_as<bool> T>
void CEREAL_LOAD_FUNCTION_NAME(WireReader& reader, T& value) {
  uint8_t byte = 0;
  reader.read(&byte, 1);
  if (byte > 1) throw_wire_fault("a bool is neither 0 nor 1");
  value = byte == 1;
}

inline void CEREAL_SAVE_FUNCTION_NAME(WireWriter& writer, const std::string& text) {
  writer.write_count(text.size());
  writer.write(text.data(), text.size());
}
inline void CEREAL_LOAD_FUNCTION_NAME(WireReader& reader, std::string& text) {
  text = reader.take(reader.read_count(1));
}

template <class T>
void CEREAL_SAVE_FUNCTION_NAME(WireWriter& writer, const std::vector<T>& values) {
  const WireDepth depth(writer);
  writer.write_count(values.size());
  if constexpr (kFlatOnWire<T>)
    writer.write(values.data(), values.size() * sizeof(T));
  else if constexpr (std::is_same_v<T, bool>)
    for (const bool value : values) writer(value);
  else
    for (const T& value : values) writer(value);
}
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(WireReader& reader, std::vector<T>& values) {
  const WireDepth depth(reader);
  const size_t count = reader.read_count(kLeastWireBytes<T>);
  values.clear();
  if constexpr (kFlatOnWire<T>) {
    values.resize(count);
    reader.read(values.data(), count * sizeof(T));
  } else if constexpr (std::is_same_v<T, bool>) {
    for (size_t i = 0; i < count; ++i) {
      bool value = false;
      reader(value);
      values.push_back(value);
    }
  } else {
    values.reserve(std::min(count, reader.left() / sizeof(T)));
    for (size_t i = 0; i < count; ++i) reader(values.emplace_back());
  }
}

template <class T, size_t n>
void CEREAL_SAVE_FUNCTION_NAME(WireWriter& writer, const std::array<T, n>& values) {
  for (const T& value : values) writer(value);
}
template <class T, size_t n>
void CEREAL_LOAD_FUNCTION_NAME(WireReader& reader, std::array<T, n>& values) {
  for (T& value : values) reader(value);
}

template <class A, class B>
void CEREAL_SAVE_FUNCTION_NAME(WireWriter& writer, const std::pair<A, B>& both) {
  writer(both.first, both.second);
}
template <class A, class B>
void CEREAL_LOAD_FUNCTION_NAME(WireReader& reader, std::pair<A, B>& both) {
  reader(both.first, both.second);
}

template <class T>
void CEREAL_SAVE_FUNCTION_NAME(WireWriter& writer, const std::optional<T>& value) {
  const WireDepth depth(writer);
  writer(value.has_value());
  if (value) writer(*value);
}
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(WireReader& reader, std::optional<T>& value) {
  const WireDepth depth(reader);
  bool there = false;
  reader(there);
  value.reset();
  if (there) reader(value.emplace());
}

template <class K, class V>
void CEREAL_SAVE_FUNCTION_NAME(WireWriter& writer, const std::map<K, V>& values) {
  const WireDepth depth(writer);
  writer.write_count(values.size());
  for (const auto& [key, value] : values) writer(key, value);
}
template <class K, class V>
void CEREAL_LOAD_FUNCTION_NAME(WireReader& reader, std::map<K, V>& values) {
  const WireDepth depth(reader);
  const size_t count = reader.read_count(kLeastWireBytes<std::pair<K, V>>);
  values.clear();
  for (size_t i = 0; i < count; ++i) {
    K key{};
    reader(key);
    if (!values.empty() && !(values.rbegin()->first < key))
      throw_wire_fault("the keys of a map do not ascend");
    reader(values.emplace_hint(values.end(), std::move(key), V{})->second);
  }
}

}  // namespace kerf::runtime
