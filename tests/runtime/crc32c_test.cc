// CRC-32C against its published check values (RFC 3720, appendix B.4), and against itself in
// pieces.
#include "runtime/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace kerf::runtime {
namespace {

TEST(Crc32c, HasThePublishedValues) {
  EXPECT_EQ(extend_crc32c(0, ""), 0u);
  EXPECT_EQ(extend_crc32c(0, "123456789"), 0xE3069283u);
  EXPECT_EQ(extend_crc32c(0, std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(extend_crc32c(0, std::string(32, '\xff')), 0x62A8AB43u);
}

TEST(Crc32c, PiecesSumToTheWhole) {
  std::string text;
  for (int i = 0; i < 100; ++i) text.push_back(static_cast<char>(i * 37));
  const uint32_t whole = extend_crc32c(0, text);
  const std::string_view view = text;
  for (size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(extend_crc32c(extend_crc32c(0, view.substr(0, cut)), view.substr(cut)), whole) << cut;
}

}  // namespace
}  // namespace kerf::runtime
