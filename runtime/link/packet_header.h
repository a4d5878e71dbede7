// What travels between two endpoints: a fixed header, and for some kinds a body behind it.
//
//   kHello    who I am, our transport, my lanes, my slots     body: Hello by wire.h
//   kWelcome  I understood your hello
//   kData     message `sequence` lies in (lane, slot)         body: a chunk, if payload travels
//   kCredit   this slot is free again
//   kProbe    I sent all messages below `sequence`; and you?
//   kState    I have all messages below `sequence`            body: SlotName[] that I still hold
//
// Every number in a header comes from outside: parse_header() checks its form (size, magic,
// version, checksum), the links check its meaning. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/channel.h"
#include "runtime/lanes.h"

namespace kerf::runtime {

inline constexpr uint32_t kDescriptorMagic = 0x6446524b;  // "KRFd"
inline constexpr uint16_t kDescriptorVersion = 3;
// Chunks of a payload that travels: few wake-ups for many bytes, small enough for the caches.
inline constexpr size_t kChunkBytes = size_t{1} << 19;
// The largest body of any kind.
inline constexpr size_t kMaxBodyBytes = size_t{1} << 20;

enum class PacketKind : uint16_t { kHello = 1, kWelcome, kData, kCredit, kProbe, kState };

// Flag of kData: its chunk is summed, because it crosses a network. Within a host nothing is on a
// wire.
inline constexpr uint32_t kSummed = 1;
// Flag of any kind: a file goes with its first byte, which a connection within a host can bring.
inline constexpr uint32_t kWithFile = 2;

// As it lies on the wire, little-endian.
struct PacketHeader {
  uint32_t magic = kDescriptorMagic;
  uint16_t version = kDescriptorVersion;
  PacketKind kind{};
  uint32_t epoch = 0;
  int32_t from = 0;
  uint64_t token = 0;
  uint64_t sequence = 0;
  uint64_t bytes = 0;   // of the message
  uint64_t offset = 0;  // of the chunk in the message
  uint64_t released = 0;
  int32_t lane = 0;
  int32_t slot = 0;
  Tag tag{};
  uint32_t body_bytes = 0;
  uint32_t body_checksum = 0;  // CRC-32C; 0 for chunks that are not summed
  uint32_t flags = 0;
  uint32_t checksum = 0;  // CRC-32C of all before
};
static_assert(sizeof(PacketHeader) == 96);

// Body of kHello. `transport` is of both channels, `offer` is for the transport's SlotStore, as is
// the file that may go with it.
struct Hello {
  TransportKind transport{};
  std::vector<Lane> send;     // of the channel from the greeter
  std::vector<Lane> receive;  // of the channel to the greeter
  std::string offer;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(transport, send, receive, offer);
  }
};

// Fills in the checksums. `body` is ignored for kData that is not summed.
void seal(PacketHeader& head, std::string_view body);
// Empty unless `bytes` are a sound header.
[[nodiscard]] std::optional<PacketHeader> parse_header(std::string_view bytes);
// Whether `body` is what `head` announces.
[[nodiscard]] bool announces(const PacketHeader& head, std::string_view body);

std::string encode_slots(const std::vector<SlotName>& slots);
// Empty unless `body` is a whole number of slot names.
[[nodiscard]] std::optional<std::vector<SlotName>> decode_slots(std::string_view body);

}  // namespace kerf::runtime
