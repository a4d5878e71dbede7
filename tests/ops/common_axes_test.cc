// Reading a tensor with another shape divides along the axes that both shapes are made of.
#include "ops/common_axes.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace kerf::ops {
namespace {

constexpr int64_t kSamples = 4;

const Shape kImage{kBatch, 4, 2, 3};
const Shape kVector{kBatch, 24};

// The box of `from` that is `box` of `to`, by way of the iterations; or why there is none.
std::string read_as(const Box& box, const Shape& to, const Shape& from) {
  const IterationSpace space = common_axes(from, to);
  const auto iterations = iterations_of(space, space.outputs[0], to, box, kSamples);
  if (!iterations) return "no box";
  std::string why = check_iterations(space, *iterations, kSamples);
  if (!why.empty()) return why;
  return to_string(operand_box(space, space.inputs[0], from, *iterations, kSamples));
}

std::string read_as(const std::string& set, const Shape& to, const Shape& from) {
  Box box = Box::whole(to.rank());
  box.axes[1] = parse_index_set(set, "test");
  return read_as(box, to, from);
}

std::string extents(const Shape& from, const Shape& to) {
  return to_string(common_axes(from, to).extents());
}

TEST(CommonAxes, AreTheFinestThatBothShapesHave) {
  EXPECT_EQ(extents(kImage, kVector), "[N, 4, 2, 3]");
  EXPECT_EQ(extents(kVector, kImage), "[N, 4, 2, 3]");
  EXPECT_EQ(extents({kBatch, 6, 4}, {kBatch, 3, 8}), "[N, 3, 2, 4]");
  EXPECT_EQ(extents({kBatch, 5, 6}, {5 * kBatch, 6}), "[N, 5, 6]");
}

TEST(CommonAxes, WholeChannelsOfAFlattenedImageAreABox) {
  EXPECT_EQ(read_as("0-5", kVector, kImage), "[all, 0, all, all]");
  EXPECT_EQ(read_as("6-11,18-23", kVector, kImage), "[all, 1,3, all, all]");
  EXPECT_EQ(read_as("0-23", kVector, kImage), "[all, all, all, all]");
}

TEST(CommonAxes, TheSameRowsOfEveryChannelAreABoxToo) {
  EXPECT_EQ(read_as("0-2,6-8,12-14,18-20", kVector, kImage), "[all, all, 0, all]");
  EXPECT_EQ(read_as("1,7", kVector, kImage), "[all, 0-1, 0, 1]");
}

TEST(CommonAxes, ElementsThatAreNoProductAreNoBox) {
  EXPECT_EQ(read_as("0-4", kVector, kImage), "no box");
  EXPECT_EQ(read_as("0,7", kVector, kImage), "no box");
}

TEST(CommonAxes, ChannelsOfAnImageAreRunsOfItsVector) {
  EXPECT_EQ(read_as("1,3", kImage, kVector), "[all, 6-11,18-23]");
}

TEST(CommonAxes, VectorsOfOneLengthAreTheSame) {
  EXPECT_EQ(read_as("3,5", kVector, kVector), "[all, 3,5]");
}

TEST(CommonAxes, ALeadingAxisOfOneIsNoObstacle) {
  EXPECT_EQ(read_as("0-2", kVector, {kBatch, 1, 8, 3}), "[all, all, 0, all]");
}

TEST(CommonAxes, SamplesOfASequenceAreRunsOfItsRows) {
  const Shape sequence{kBatch, 5, 6};
  const Shape rows{5 * kBatch, 6};
  EXPECT_EQ(read_as({{IndexSet::range(5, 15), IndexSet::all()}}, rows, sequence),
            "[1-2, all, all]");
  EXPECT_EQ(read_as({{IndexSet::range(5, 14), IndexSet::all()}}, rows, sequence), "no box");
}

// Which takes memory for the ranges, however long they are.
TEST(CommonAxes, SamplesMayBeMoreThanAnyoneCouldList) {
  constexpr int64_t kMany = int64_t{1} << 40;
  const Shape sequence{kBatch, 5, 6};
  const Shape rows{5 * kBatch, 6};
  const IterationSpace space = common_axes(sequence, rows);
  const Box read{{IndexSet({{5, 5 * kMany / 2}, {5 * kMany / 2 + 5, 5 * kMany}}), IndexSet::all()}};
  const auto iterations = iterations_of(space, space.outputs[0], rows, read, kMany);
  ASSERT_TRUE(iterations);
  EXPECT_EQ(iterations->axes[0], IndexSet({{1, kMany / 2}, {kMany / 2 + 1, kMany}}));
  EXPECT_EQ(operand_box(space, space.outputs[0], rows, *iterations, kMany), read);
  Box some = Box::whole(3);
  some.axes[1] = IndexSet::range(0, 2);
  const auto error =
      kerf::tests::error_of([&] { operand_box(space, space.outputs[0], rows, some, kMany); });
  ASSERT_TRUE(error) << "a range for each sample";
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
}

// A block that is held in part, and the next in whole, are not alike; two halves of one block are.
TEST(CommonAxes, WhatBlocksHoldIsComparedBlockByBlock) {
  const Shape sequence{kBatch, 5, 6};
  const Shape rows{5 * kBatch, 6};
  const auto rows_read = [&](const std::string& set) {
    return read_as(Box{{parse_index_set(set, "test"), IndexSet::all()}}, rows, sequence);
  };
  EXPECT_EQ(rows_read("0-1,3-6,8-9"), "[0-1, 0-1,3-4, all]");
  EXPECT_EQ(rows_read("3-14"), "no box");
  EXPECT_EQ(rows_read("5-17"), "no box");
  EXPECT_EQ(rows_read("2-4,7-9,12-14"), "[0-2, 2-4, all]");
  EXPECT_EQ(rows_read("0-4,10-14"), "[0,2, all, all]");
}

TEST(CommonAxes, SamplesThatLieApartStayWhole) {
  const IterationSpace space = common_axes({5, kBatch, 6}, {5 * kBatch, 6});
  EXPECT_EQ(to_string(space.extents()), "[5, N, 6]");
  EXPECT_FALSE(space.axes[1].undivided.empty());
}

// Flat indices that a box holds.
std::vector<int64_t> held(const Box& box, const Shape& shape) {
  std::vector<int64_t> all{0};
  for (int axis = 0; axis < shape.rank(); ++axis) {
    std::vector<int64_t> next;
    for (const int64_t before : all)
      for (const Range& range : box.axes[static_cast<size_t>(axis)].ranges(shape[axis]))
        for (int64_t i = range.begin; i < range.end; ++i) next.push_back(before * shape[axis] + i);
    all = std::move(next);
  }
  return all;
}

// A part of an axis that divides is the same elements of either shape.
TEST(CommonAxes, BothSidesHaveWhatDivides) {
  int dividable = 0;
  for (int64_t a = 2; a <= 12; ++a)
    for (int64_t b = 2; b <= 12; ++b)
      for (int64_t c = 2; c <= 12; ++c)
        for (int64_t d = 2; d <= 12; ++d) {
          if (a * b % (c * d) != 0 || a * b == c * d) continue;
          const Shape two{a, b};
          const Shape three{c, d, a * b / c / d};
          for (const auto& [from, to] : {std::pair{two, three}, std::pair{three, two}}) {
            const IterationSpace space = common_axes(from, to);
            for (size_t axis = 0; axis < space.axes.size(); ++axis) {
              if (!space.axes[axis].undivided.empty()) continue;
              ++dividable;
              Box part = Box::whole(static_cast<int>(space.axes.size()));
              part.axes[axis] =
                  IndexSet::range(space.axes[axis].extent / 2, space.axes[axis].extent);
              ASSERT_EQ(held(operand_box(space, space.inputs[0], from, part, 1), from),
                        held(operand_box(space, space.outputs[0], to, part, 1), to))
                  << to_string(from) << " to " << to_string(to) << ", axis " << axis;
            }
          }
        }
  EXPECT_GT(dividable, 1000);
}

TEST(CommonAxes, ShapesWithoutAnyStayWholeAndSayWhy) {
  const Shape from{kBatch, 4, 6};
  const Shape to{kBatch, 6, 4};
  EXPECT_EQ(extents(from, to), "[N, 24]");
  EXPECT_EQ(read_as("0-2", to, from), "no box");
  Box part = Box::whole(2);
  part.axes[1] = IndexSet::range(0, 12);
  EXPECT_NE(check_iterations(common_axes(from, to), part, kSamples), "");
}

}  // namespace
}  // namespace kerf::ops
