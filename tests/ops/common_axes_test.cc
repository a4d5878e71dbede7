// Reading a tensor with another shape maps index sets, or says that it cannot.
#include "ops/refold.h"

#include <gtest/gtest.h>

namespace kerf::ops {
namespace {

const Shape kImage{kBatch, 4, 2, 3};
const Shape kVector{kBatch, 24};

std::string refolded(const std::string& set, const Shape& from, const Shape& to) {
  Box box = Box::whole(from.rank());
  box.axes[1] = parse_index_set(set, "test");
  const auto result = refold(box, from, to);
  return result ? to_string(*result) : "no box";
}

TEST(Refold, WholeChannelsOfAFlattenedImageAreABox) {
  EXPECT_EQ(refolded("0-5", kVector, kImage), "[all, 0, all, all]");
  EXPECT_EQ(refolded("6-11,18-23", kVector, kImage), "[all, 1,3, all, all]");
  EXPECT_EQ(refolded("0-23", kVector, kImage), "[all, all, all, all]");
}

TEST(Refold, TheSameRowsOfEveryChannelAreABoxToo) {
  EXPECT_EQ(refolded("0-2,6-8,12-14,18-20", kVector, kImage), "[all, all, 0, all]");
  EXPECT_EQ(refolded("1,7", kVector, kImage), "[all, 0-1, 0, 1]");
}

TEST(Refold, ElementsThatAreNoProductAreNoBox) {
  EXPECT_EQ(refolded("0-4", kVector, kImage), "no box");
  EXPECT_EQ(refolded("0,7", kVector, kImage), "no box");
}

TEST(Refold, ChannelsOfAnImageAreRunsOfItsVector) {
  EXPECT_EQ(refolded("1,3", kImage, kVector), "[all, 6-11,18-23]");
}

TEST(Refold, VectorsOfOneLengthAreTheSame) {
  EXPECT_EQ(refolded("3,5", kVector, kVector), "[all, 3,5]");
}

TEST(Refold, ALeadingAxisOfOneIsNoObstacle) {
  EXPECT_EQ(refolded("0-2", kVector, {kBatch, 1, 8, 3}), "[all, all, 0, all]");
}

}  // namespace
}  // namespace kerf::ops
