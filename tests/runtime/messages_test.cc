// How tasks and results are packed into messages.
#include "runtime/messages.h"

#include <gtest/gtest.h>

#include "runtime/wire.h"

namespace kerf::runtime {
namespace {

TEST(Batches, CarryEverythingInOrder) {
  std::vector<std::string> items;
  for (int i = 0; i < 40; ++i) items.emplace_back(i == 7 ? 1'000'000 : 20'000, 'a' + i % 26);
  std::vector<std::string> unpacked;
  for (const auto& payload : encode_batches(items)) {
    const auto batch = decode<std::vector<std::string>>(payload);
    EXPECT_TRUE(batch.size() == 1 || payload.size() < 300'000) << payload.size();
    unpacked.insert(unpacked.end(), batch.begin(), batch.end());
  }
  EXPECT_EQ(unpacked, items);
}

// The length before each item counts too, or a million of nothing would be one message of 4 MB.
TEST(Batches, OfManySmallItemsAreNoLargerThanOthers) {
  for (const size_t size : {size_t{0}, size_t{1}}) {
    const std::vector<std::string> items(1'000'000, std::string(size, 'x'));
    size_t unpacked = 0;
    for (const auto& payload : encode_batches(items)) {
      EXPECT_LE(payload.size(), (size_t{256} << 10) + 4);  // and how many there are
      unpacked += decode<std::vector<std::string>>(payload).size();
    }
    EXPECT_EQ(unpacked, items.size());
  }
}

TEST(Batches, OfNothingAreNone) { EXPECT_TRUE(encode_batches({}).empty()); }

}  // namespace
}  // namespace kerf::runtime
