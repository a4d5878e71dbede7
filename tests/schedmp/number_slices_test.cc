// Elements in a row are boxes of their tensor, which hold them in their order.
#include "schedmp/training/number_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp {
namespace {

// Row-major numbers of a box's elements in the whole tensor.
std::vector<int64_t> numbers_of(const ops::Box& box, const ops::Shape& shape) {
  std::vector<int64_t> numbers{0};
  for (int axis = 0; axis < shape.rank(); ++axis) {
    std::vector<int64_t> more;
    for (const int64_t before : numbers)
      for (const ops::Range& range : box.axes[static_cast<size_t>(axis)].ranges(shape[axis]))
        for (int64_t index = range.begin; index < range.end; ++index)
          more.push_back(before * shape[axis] + index);
    numbers = std::move(more);
  }
  return numbers;
}

void expect_divided(const ops::Box& held, const ops::Shape& shape) {
  const std::vector<int64_t> all = numbers_of(held, shape);
  const auto count = std::ssize(all);
  for (int64_t begin = 0; begin <= count; ++begin)
    for (int64_t end = begin; end <= count; ++end) {
      const auto boxes = boxes_of_elements(held, shape, {begin, end});
      std::vector<int64_t> found;
      for (const ops::Box& box : boxes)
        for (const int64_t number : numbers_of(box, shape)) found.push_back(number);
      EXPECT_EQ(found, std::vector<int64_t>(all.begin() + begin, all.begin() + end))
          << begin << " to " << end;
      EXPECT_LE(std::ssize(boxes), std::max(1, 2 * shape.rank() - 1));
    }
}

TEST(BoxesOfElements, HoldThemInTheirOrder) {
  expect_divided(ops::Box::whole(0), {});
  expect_divided(ops::Box::whole(1), {7});
  expect_divided(ops::Box::whole(2), {4, 5});
  expect_divided(ops::Box::whole(3), {3, 2, 4});
  expect_divided(ops::Box::whole(4), {2, 1, 3, 2});
}

TEST(BoxesOfElements, OfABoxAreBoxesOfItsTensor) {
  ops::Box held = ops::Box::whole(3);
  held.axes[0] = ops::IndexSet::of({0, 2, 3, 6});
  held.axes[2] = ops::IndexSet::range(1, 4);
  expect_divided(held, {7, 2, 5});
}

// Which file, and what to do.
TEST(Count, ThatNoneIsNamesItsFile) {
  const kerf::tests::TemporaryFolder folder;
  partitioner::Value value;
  value.name = "fc.weight";
  runtime::LocalStore store;
  std::vector<PlacedPart> placed;
  for (const auto& [file, kind, count] :
       {std::tuple{"worker-0", "updates", 7}, {"worker-1", "accrued_steps", -3}}) {
    std::vector<StoredSlice> slices;
    add_count(kind, value, count, slices);
    PieceWriter writer(store, folder / file, 1 << 20);
    write_slices(slices, writer);
    placed.push_back({(folder / file).string(), writer.finish().pieces.at(0)});
  }
  StoredSlices slices(store, placed);
  EXPECT_EQ(read_count(slices, "updates", value), 7);
  const auto wrong = kerf::tests::error_of([&] { read_count(slices, "accrued_steps", value); });
  ASSERT_TRUE(wrong);
  EXPECT_EQ(wrong->where(), (folder / "worker-1").string());
  EXPECT_THAT(wrong->message(), testing::HasSubstr("'fc.weight' are -3"));
  EXPECT_THAT(wrong->message(), testing::HasSubstr("move this checkpoint away"));
  const auto none = kerf::tests::error_of([&] { read_count(slices, "others", value); });
  ASSERT_TRUE(none);
  EXPECT_EQ(none->where(), (folder / "worker-0").string());
}

}  // namespace
}  // namespace kerf::schedmp
