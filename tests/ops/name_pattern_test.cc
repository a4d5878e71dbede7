#include "ops/name_pattern.h"

#include <gtest/gtest.h>

namespace kerf::ops {
namespace {

TEST(NamePattern, AStarStandsForAnyTextAndAQuestionMarkForOneCharacter) {
  EXPECT_TRUE(fits_pattern("layer1.0.weight", "layer1.*"));
  EXPECT_TRUE(fits_pattern("layer1.0.weight", "*weight"));
  EXPECT_TRUE(fits_pattern("layer1.", "layer1.*"));
  EXPECT_TRUE(fits_pattern("fc", "f?"));
  EXPECT_TRUE(fits_pattern("aXbXc", "a*b*c"));
  EXPECT_TRUE(fits_pattern("abab.b", "a*b"));
  EXPECT_TRUE(fits_pattern("", "*"));
  EXPECT_FALSE(fits_pattern("", "?"));
  EXPECT_FALSE(fits_pattern("f", "f?"));
  EXPECT_FALSE(fits_pattern("aba", "aba?*"));
  EXPECT_FALSE(fits_pattern("layer10", "layer1"));
  EXPECT_FALSE(fits_pattern("layer2.weight", "layer1.*"));
  EXPECT_FALSE(fits_pattern("acb", "a*b*c"));
}

TEST(NamePattern, OneOfSeveralIsEnough) {
  EXPECT_TRUE(fits_any("fc.bias", {"conv*", "*.bias"}));
  EXPECT_FALSE(fits_any("fc.weight", {"conv*", "*.bias"}));
  EXPECT_FALSE(fits_any("fc.weight", {}));
}

}  // namespace
}  // namespace kerf::ops
