// A layout says where every element of a tensor lives, or is refused by name.
#include "ops/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <set>

namespace kerf::ops {
namespace {

using testing::HasSubstr;

IndexSet set(const std::string& text) { return parse_index_set(text, "test"); }

Box box(const std::vector<std::string>& axes) {
  Box result;
  for (const std::string& axis : axes) result.axes.push_back(set(axis));
  return result;
}

// Partial sums of the whole of a tensor of two axes.
Layout sums_on_0_and_1() {
  return {{{0, Box::whole(2), {set("0-4,7")}}, {1, Box::whole(2), {set("5-6,8-9")}}}};
}

// Elements of a box within a tensor of `shape` (whose batch counts as one sample), row-major.
std::vector<int64_t> elements(const Box& within, const Shape& shape) {
  std::vector<int64_t> result{0};
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t extent = shape[axis] == kBatch ? 1 : shape[axis];
    std::vector<int64_t> longer;
    for (const int64_t prefix : result)
      for (const Range& range : within.axes[static_cast<size_t>(axis)].ranges(extent))
        for (int64_t i = range.begin; i < range.end; ++i) longer.push_back(prefix * extent + i);
    result = std::move(longer);
  }
  return result;
}

TEST(Box, MeetsAndHoldsAsItsElementsDo) {
  std::mt19937_64 engine(11);
  const Shape shape{3, 4, 5};
  const auto draw = [&] {
    Box drawn;
    for (const int64_t extent : shape) {
      std::vector<int64_t> indices(engine() % 5);
      for (int64_t& index : indices) index = static_cast<int64_t>(engine() % 60) % extent;
      drawn.axes.push_back(IndexSet::of(indices).normalized(extent));
    }
    return drawn;
  };
  for (int round = 0; round < 2000; ++round) {
    const Box a = draw();
    const Box b = draw();
    SCOPED_TRACE(to_string(a) + " and " + to_string(b));
    const auto x = elements(a, shape);
    const auto y = elements(b, shape);
    std::vector<int64_t> common;
    std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(common));
    EXPECT_EQ(elements(intersect(a, b), shape), common);
    EXPECT_EQ(a.contains(b), std::includes(x.begin(), x.end(), y.begin(), y.end()));
    EXPECT_EQ(a.empty(), x.empty());
    EXPECT_EQ(local_shape(a, shape).elements(), std::ssize(x));
    const Box both = normalized(hull(a, b), shape);
    EXPECT_TRUE(both.contains(a));
    EXPECT_TRUE(both.contains(b));
  }
}

TEST(Box, IsWrittenAxisByAxis) {
  EXPECT_EQ(to_string(box({"all", "0-127"})), "[all, 0-127]");
  EXPECT_EQ(to_string(Box{}), "[]");
  EXPECT_TRUE(Box{}.is_whole());
  EXPECT_FALSE(Box{}.empty());
}

TEST(Box, OfAnotherRankIsABug) {
  EXPECT_THROW(intersect(Box::whole(2), Box::whole(3)), Error);
  EXPECT_THROW(hull(Box::whole(2), Box::whole(3)), Error);
  EXPECT_THROW((void)Box::whole(2).contains(Box::whole(3)), Error);
  EXPECT_THROW(normalized(Box::whole(2), Shape({3})), Error);
  EXPECT_THROW(local_shape(Box::whole(2), Shape({3})), Error);
}

TEST(Box, KeepsTheBatchOpen) {
  EXPECT_EQ(local_shape(box({"all", "0-3"}), {kBatch, 10}), Shape({kBatch, 4}));
  EXPECT_EQ(normalized(box({"all", "0-9"}), {kBatch, 10}), Box::whole(2));
}

TEST(Clip, KeepsTheIndicesBelowTheExtent) {
  std::mt19937_64 engine(12);
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> indices(engine() % 9);
    for (int64_t& index : indices) index = static_cast<int64_t>(engine() % 20);
    const IndexSet any = IndexSet::of(indices);
    for (int64_t extent = 0; extent <= 21; ++extent) {
      const IndexSet clipped = clip(any, extent);
      int64_t count = 0;
      for (int64_t index = 0; index < 25; ++index) {
        const bool kept = index < extent && any.contains(index);
        EXPECT_EQ(clipped.contains(index), kept) << to_string(any) << " below " << extent;
        count += kept ? 1 : 0;
      }
      EXPECT_EQ(clipped_size(any, extent), count) << to_string(any) << " below " << extent;
      EXPECT_EQ(clipped.size(extent), count);
    }
  }
  EXPECT_EQ(clipped_size(IndexSet::all(), 7), 7);
  EXPECT_EQ(clipped_size(IndexSet::none(), 7), 0);
  EXPECT_EQ(clip(IndexSet::all(), 7).size(7), 7);
}

// Index sets of the batch refer to the largest micro-batch; a smaller one clips them.
TEST(LocalShape, OfAMicroBatchClipsItsSamples) {
  const Shape shape{kBatch, 10};
  const Box within = box({"0-1,5-7", "0-3"});
  EXPECT_EQ(local_shape(within, shape, 8), Shape({5, 4}));
  EXPECT_EQ(local_shape(within, shape, 7), Shape({4, 4}));
  EXPECT_EQ(local_shape(within, shape, 5), Shape({2, 4}));
  EXPECT_EQ(local_shape(within, shape, 1), Shape({1, 4}));
  EXPECT_EQ(local_shape(within, shape, 0), Shape({0, 4}));
  EXPECT_EQ(local_shape(box({"5-7", "all"}), shape, 4), Shape({0, 10}));
  EXPECT_EQ(local_shape(box({"all", "0-3"}), shape, 3), Shape({3, 4}));
  // Axes that count samples several times over, and the batch on another axis.
  EXPECT_EQ(local_shape(box({"0-2", "8-11"}), {6, kBatch * 4}, 3), Shape({3, 4}));
  EXPECT_EQ(local_shape(box({"0-2", "8-11"}), {6, kBatch * 4}, 2), Shape({3, 0}));
  EXPECT_EQ(local_shape(within, {9, 10}, 1), Shape({5, 4})) << "no samples, nothing is clipped";
}

TEST(Box, HullOfNothingIsTheOther) {
  const Box empty = box({"none", "5-9"});
  EXPECT_EQ(hull(empty, box({"0-1", "0"})), box({"0-1", "0"}));
  EXPECT_EQ(hull(box({"0-1", "0"}), empty), box({"0-1", "0"}));
}

TEST(CheckLayout, TakesWhatPlacesEveryElement) {
  const Shape shape{kBatch, 10};
  EXPECT_EQ(check_layout(Layout::whole(2, 2), shape), "");
  EXPECT_EQ(check_layout(Layout::replicated({0, 1, 4}, 2), shape), "");
  for (int parts = 1; parts <= 12; ++parts) {
    std::vector<int> numbers;
    for (int part = 0; part < parts; ++part) numbers.push_back(part);
    const Layout layout = Layout::split(numbers, 2, 1, split_evenly(10, parts));
    EXPECT_EQ(check_layout(layout, shape), "") << parts;
    EXPECT_EQ(std::ssize(layout.shares), std::min(parts, 10));
    EXPECT_EQ(normalized(layout, shape), layout);
  }
  EXPECT_EQ(check_layout(Layout::split({0, 1}, 2, 1, {set("0-2,7,9"), set("3-6,8")}), shape), "");
  EXPECT_EQ(check_layout(sums_on_0_and_1(), shape), "");
  EXPECT_EQ(check_layout({{{0, Box{}}}}, {}), "");
}

TEST(CheckLayout, TakesQuartersAndReplicasOfThem) {
  const Layout quarters{{{0, box({"0-1", "0-2"})},
                         {1, box({"2-3", "0-2"})},
                         {2, box({"0-1", "3-5"}), {set("0-6")}},
                         {3, box({"2-3", "3-5"})},
                         {4, box({"0-1", "3-5"}), {set("7-9")}}}};
  EXPECT_EQ(check_layout(quarters, {4, 6}), "");
}

// With the shape of the largest micro-batch its samples are divided like anything else.
TEST(CheckLayout, DividesTheBatchOfAConcreteShape) {
  const Shape open{kBatch, 10};
  const Layout halves = Layout::split({0, 1}, 2, 0, {set("0-3"), set("4-7")});
  EXPECT_EQ(check_layout(halves, open.with_batch(8)), "");
  EXPECT_EQ(check_layout(halves, open.with_batch(9)), "no part holds 8 of axis 0");
  EXPECT_THAT(check_layout(halves, open.with_batch(7)),
              HasSubstr("part 1 holds 4-7 of axis 0, whose indices end at 6"));
  EXPECT_THAT(check_layout(halves, open), HasSubstr("batch, whose extent is not known"));
  const Layout quarters{{{0, box({"0,2,4,6", "0-4"})},
                         {1, box({"1,3,5,7", "0-4"})},
                         {2, box({"0,2,4,6", "5-9"})},
                         {3, box({"1,3,5,7", "5-9"})}}};
  EXPECT_EQ(check_layout(quarters, open.with_batch(8)), "");
  EXPECT_EQ(normalized(halves, open.with_batch(8)), halves);
}

TEST(CheckLayout, NamesTheHole) {
  EXPECT_EQ(check_layout(Layout::split({0, 1}, 2, 1, {set("0-3"), set("6-9")}), {kBatch, 10}),
            "no part holds 4-5 of axis 1");
  const Layout three_quarters{
      {{0, box({"0-1", "0-2"})}, {1, box({"2-3", "0-2"})}, {2, box({"0-1", "3-5"})}}};
  EXPECT_EQ(check_layout(three_quarters, {4, 6}), "no part holds 6 of the 24 elements");
  EXPECT_EQ(check_layout({}, {4, 6}), "no part holds any of it");
}

TEST(CheckLayout, NamesTheOverlap) {
  EXPECT_THAT(check_layout(Layout::split({3, 5}, 2, 1, {set("0-6"), set("5-9")}), {kBatch, 10}),
              HasSubstr("parts 3 and 5 overlap in [all, 5-6]"));
}

TEST(CheckLayout, NamesBadSharesOneByOne) {
  const Shape shape{kBatch, 10};
  const auto fault = [&](const std::vector<Share>& shares) {
    return check_layout({shares}, shape);
  };
  EXPECT_THAT(fault({{0, box({"all", "0-10"})}}), HasSubstr("part 0 holds 0-10 of axis 1"));
  EXPECT_THAT(fault({{0, box({"0-3", "all"})}}), HasSubstr("batch"));
  EXPECT_THAT(fault({{0, box({"all", "none"})}}), HasSubstr("holds nothing of axis 1"));
  EXPECT_THAT(fault({{0, Box::whole(3)}}), HasSubstr("3 axes"));
  EXPECT_THAT(fault({{-1, Box::whole(2)}}), HasSubstr("part -1"));
  EXPECT_THAT(fault({{4, box({"all", "0-4"})}, {4, box({"all", "5-9"})}}),
              HasSubstr("part 4 has two shares"));
  EXPECT_THAT(fault({{0, Box::whole(2), {set("0-4")}}, {1, Box::whole(2)}}),
              HasSubstr("one a partial sum and the other not"));
}

TEST(CheckLayout, SeesThroughSpelling) {
  const Layout layout{{{0, box({"all", "0-9"})}, {1, box({"all", "all"})}}};
  EXPECT_EQ(check_layout(layout, {kBatch, 10}), "");
}

// Any assignment of boxes to parts is judged as counting the holders of each element judges it.
TEST(CheckLayout, AgreesWithCounting) {
  std::mt19937_64 engine(5);
  const Shape shape{2, 4};
  int sound = 0;
  for (int round = 0; round < 4000; ++round) {
    Layout layout;
    const int shares = 1 + static_cast<int>(engine() % 4);
    for (int part = 0; part < shares; ++part) {
      const auto axis = [&](int64_t extent) {
        const auto begin = static_cast<int64_t>(engine() % 2) * extent / 2;
        return IndexSet::range(begin, engine() % 2 == 0 ? extent : begin + extent / 2);
      };
      layout.shares.push_back({part, {{axis(2), axis(4)}}});
    }
    std::map<int64_t, std::set<std::vector<int64_t>>> boxes;  // by element
    for (const Share& share : layout.shares)
      for (const int64_t element : elements(share.box, shape))
        boxes[element].insert(elements(share.box, shape));
    const bool right =
        std::ssize(boxes) == 8 &&
        std::all_of(boxes.begin(), boxes.end(), [](auto& e) { return e.second.size() == 1; });
    EXPECT_EQ(check_layout(layout, shape).empty(), right) << describe(layout);
    sound += right ? 1 : 0;
  }
  EXPECT_GT(sound, 100);
}

TEST(Layout, FindsTheShareOfAPart) {
  const Layout layout = Layout::split({3, 1}, 2, 1, split_evenly(10, 2));
  ASSERT_NE(layout.find(1), nullptr);
  EXPECT_EQ(to_string(layout.find(1)->box), "[all, 5-9]");
  EXPECT_EQ(layout.find(0), nullptr);
}

TEST(Describe, SpeaksTheWordsOfTheDesign) {
  EXPECT_EQ(describe(Layout::whole(2, 2)), "whole on 2");
  EXPECT_EQ(describe(Layout::replicated({0, 1}, 2)), "replicated on 0,1");
  EXPECT_EQ(describe(sums_on_0_and_1()), "partial sums on 0,1");
  EXPECT_EQ(describe(Layout::split({0, 1, 2}, 2, 1, split_evenly(10, 3))),
            "split on axis 1 over 0,1,2");
  EXPECT_EQ(describe(Layout::split({0, 1}, 2, 1, {set("0,2"), set("1,3")})),
            "split on axis 1 over 0,1");
  EXPECT_EQ(describe({}), "nowhere");
}

TEST(Describe, SpellsOutTheRest) {
  const Layout groups{{{0, box({"all", "0-3"})},
                       {1, box({"all", "0-3"})},
                       {2, box({"all", "4-9"}), {set("0,2")}},
                       {3, box({"all", "4-9"}), {set("1,3")}}}};
  EXPECT_EQ(describe(groups), "[all, 0-3] on 0,1; partial sums of [all, 4-9] on 2,3");
}

}  // namespace
}  // namespace kerf::ops
