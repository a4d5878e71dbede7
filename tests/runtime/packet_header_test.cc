// What a header says of the body behind it.
#include "runtime/link/packet_header.h"

#include <gtest/gtest.h>

namespace kerf::runtime {
namespace {

PacketHeader chunk(uint32_t flags, const std::string& body) {
  PacketHeader head;
  head.kind = PacketKind::kData;
  head.flags = flags;
  head.body_bytes = static_cast<uint32_t>(body.size());
  seal(head, body);
  return head;
}

std::string bytes_of(const PacketHeader& head) {
  return {reinterpret_cast<const char*>(&head), sizeof head};
}

TEST(PacketHeader, OfASummedChunkTellsEveryBitThatChanged) {
  const std::string body = "the bytes of a tensor";
  const PacketHeader head = chunk(kSummed, body);
  EXPECT_TRUE(announces(head, body));
  for (size_t bit = 0; bit < body.size() * 8; ++bit) {
    std::string changed = body;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(announces(head, changed)) << "bit " << bit;
  }
  EXPECT_FALSE(announces(head, body.substr(1)));
  EXPECT_TRUE(announces(chunk(kSummed, ""), ""));
}

TEST(PacketHeader, WithinAHostSumsNoChunk) {
  const PacketHeader head = chunk(0, "the bytes of a tensor");
  EXPECT_EQ(head.body_checksum, 0U);
  EXPECT_TRUE(announces(head, "the bytes of another!"));
}

TEST(PacketHeader, OfAnotherVersionOrWithUnknownFlagsIsNone) {
  EXPECT_TRUE(parse_header(bytes_of(chunk(kSummed, "body"))));
  EXPECT_TRUE(parse_header(bytes_of(chunk(kWithFile, "body"))));
  for (uint32_t flag = kWithFile << 1; flag != 0; flag <<= 1)
    EXPECT_FALSE(parse_header(bytes_of(chunk(kSummed | flag, "body")))) << flag;
  PacketHeader old = chunk(0, "body");
  old.version = kDescriptorVersion - 1;
  seal(old, "body");
  EXPECT_FALSE(parse_header(bytes_of(old)));
}

}  // namespace
}  // namespace kerf::runtime
