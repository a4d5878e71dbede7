// Numbers of 16 bits: every one of them survives, and what lies between two goes to the nearest.
#include "ops/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kerf::ops {
namespace {

template <class From, class To>
void expect_every_one_back(const From& from, const To& to) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float x = from(static_cast<uint16_t>(bits));
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(from(to(x)))) << bits;
    } else {
      ASSERT_EQ(to(x), bits);
    }
  }
}

TEST(Halves, EveryOneComesBack) {
  expect_every_one_back(from_float16, to_float16);
  expect_every_one_back(from_bfloat16, to_bfloat16);
}

TEST(Halves, AreWhatTheStandardSays) {
  EXPECT_EQ(from_float16(0x3C00), 1.0F);
  EXPECT_EQ(from_float16(0xC500), -5.0F);
  EXPECT_EQ(from_float16(0x7BFF), 65504.0F);
  EXPECT_EQ(from_float16(0x0001), 0x1p-24F);
  EXPECT_EQ(from_float16(0x7C00), INFINITY);
  EXPECT_EQ(from_bfloat16(0x3F80), 1.0F);
}

// Between neighbours: below the middle, above it, and in the middle, to the even one.
template <class From, class To>
void expect_nearest(const From& from, const To& to, uint16_t last) {
  for (uint16_t bits = 0; bits < last; ++bits) {
    const float low = from(bits);
    const float high = from(static_cast<uint16_t>(bits + 1));
    const float middle = (low + high) / 2;
    ASSERT_EQ(to(std::nextafter(middle, low)), bits);
    ASSERT_EQ(to(std::nextafter(middle, high)), bits + 1);
    ASSERT_EQ(to(middle), bits + bits % 2);
    ASSERT_EQ(to(-middle), 0x8000 + bits + bits % 2);
  }
}

TEST(Halves, RoundToTheNearestTiesToEven) {
  expect_nearest(from_float16, to_float16, 0x7BFF);
  expect_nearest(from_bfloat16, to_bfloat16, 0x7F00);
  EXPECT_EQ(to_float16(65519.0F), 0x7BFF);
  EXPECT_EQ(to_float16(65520.0F), 0x7C00);
  EXPECT_EQ(to_float16(-1e30F), 0xFC00);
}

TEST(Halves, AreRoundedOnceFromNumbersOfMoreDigits) {
  EXPECT_EQ(to_float16(rounded_to_odd(1 + 0x1p-11)), 0x3C00);  // a tie, to the even one
  EXPECT_EQ(to_float16(rounded_to_odd(1 + 0x1p-11 + 0x1p-40)), 0x3C01);
  EXPECT_EQ(to_float16(rounded_to_odd(-1 - 0x1p-11 - 0x1p-40)), 0xBC01);
  EXPECT_EQ(to_float16(rounded_to_odd(1 + 0x3p-11 - 0x1p-40)), 0x3C01);
  EXPECT_EQ(to_float16(rounded_to_odd(65520 - 0x1p-30)), 0x7BFF);
  EXPECT_EQ(to_bfloat16(rounded_to_odd(1e300)), 0x7F80);
  EXPECT_EQ(to_bfloat16(rounded_to_odd(-1e-300)), 0x8000);
  EXPECT_EQ(to_bfloat16(rounded_to_odd(~uint64_t{0})), 0x5F80);
  EXPECT_EQ(to_bfloat16(rounded_to_odd(uint64_t{0xFF80000000000000} - 1)), 0x5F7F);
  EXPECT_TRUE(std::isnan(rounded_to_odd(std::numeric_limits<double>::quiet_NaN())));
}

}  // namespace
}  // namespace kerf::ops
