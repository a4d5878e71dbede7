#include "runtime/link/packet_header.h"

#include <cstddef>
#include <cstring>

#include "runtime/wire.h"

namespace kerf::runtime {
namespace {

constexpr uint32_t kKnownFlags = kSummed | kWithFile;

static_assert(sizeof(SlotName) == 16 && std::is_trivially_copyable_v<SlotName>);

uint32_t header_checksum(const PacketHeader& head) {
  return crc32c({reinterpret_cast<const char*>(&head), offsetof(PacketHeader, checksum)});
}

uint32_t checksum_of_body(const PacketHeader& head, std::string_view body) {
  const bool is_summed = head.kind != PacketKind::kData || (head.flags & kSummed) != 0;
  return is_summed && !body.empty() ? crc32c(body) : 0;
}

}  // namespace

void seal(PacketHeader& head, std::string_view body) {
  if (head.kind != PacketKind::kData) head.body_bytes = static_cast<uint32_t>(body.size());
  head.body_checksum = checksum_of_body(head, body);
  head.checksum = header_checksum(head);
}

std::optional<PacketHeader> parse_header(std::string_view bytes) {
  PacketHeader head;
  if (bytes.size() != sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != kDescriptorMagic || head.version != kDescriptorVersion) return std::nullopt;
  if (head.checksum != header_checksum(head) || (head.flags & ~kKnownFlags) != 0)
    return std::nullopt;
  return head;
}

bool announces(const PacketHeader& head, std::string_view body) {
  return head.body_bytes == body.size() && head.body_checksum == checksum_of_body(head, body);
}

std::string encode_slots(const std::vector<SlotName>& slots) {
  return {reinterpret_cast<const char*>(slots.data()), slots.size() * sizeof(SlotName)};
}

std::optional<std::vector<SlotName>> decode_slots(std::string_view body) {
  if (body.size() % sizeof(SlotName) != 0) return std::nullopt;
  std::vector<SlotName> slots(body.size() / sizeof(SlotName));
  if (!body.empty()) std::memcpy(slots.data(), body.data(), body.size());
  return slots;
}

}  // namespace kerf::runtime
