// Slices of weights: whatever a share has of a tensor is in them once, in order.
#include "schedmp/training/weight_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "ops/pack.h"

namespace kerf::schedmp {
namespace {

using ops::Box;
using ops::IndexSet;

TEST(WeightSlices, AreOfBoundedSizeAndCover) {
  const ops::ValueSpec spec{ops::DType::kFloat32, {10, 25}};  // rows of 100 bytes
  const std::vector<Box> slices = slices_of(spec, 399);
  ASSERT_EQ(slices.size(), 4U);
  EXPECT_EQ(slices[0].axes[0], IndexSet::range(0, 3));
  EXPECT_EQ(slices[3].axes[0], IndexSet::range(9, 10));
  EXPECT_EQ(slices_of(spec, 1).size(), 10U) << "a row at least";
  EXPECT_EQ(slices_of(spec), std::vector<Box>{Box::whole(2)});
  EXPECT_EQ(slices_of({ops::DType::kFloat32, ops::Shape()}), std::vector<Box>{Box::whole(0)});
  EXPECT_THAT(slices_of({ops::DType::kFloat32, {0, 3}}), testing::IsEmpty());
}

IndexSet random_set(int64_t extent, std::mt19937& random) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < extent; ++i)
    if (random() % 2 == 0) indices.push_back(i);
  return IndexSet::of(indices);
}

// The tensor holds 0, 1, 2...: what the slices bring of a share is what packing it whole brings.
TEST(WeightSlices, FindEveryRowOfAShare) {
  std::mt19937 random(5);
  const ops::ValueSpec spec{ops::DType::kInt32, {23, 4, 3}};
  std::vector<int32_t> whole(23 * 4 * 3);
  std::iota(whole.begin(), whole.end(), 0);
  for (int round = 0; round < 50; ++round) {
    const Box share = ops::normalized(
        {{random_set(23, random), random_set(4, random), IndexSet::all()}}, spec.shape);
    if (share.empty()) continue;
    const ops::Selection all(Box::whole(3), share, spec);
    std::vector<std::byte> expected(all.bytes(1));
    all.pack(reinterpret_cast<const std::byte*>(whole.data()), expected.data(), 1);
    const int64_t rows = share.axes[0].size(23);
    const size_t row = expected.size() / static_cast<size_t>(rows);
    int64_t next = 0;
    for (const Box& slice : slices_of(spec, 48 * (1 + random() % 9))) {
      const Box piece = ops::normalized(ops::intersect(slice, share), spec.shape);
      if (piece.empty()) continue;
      const RowRange found = rows_of(piece, share, spec.shape);
      ASSERT_EQ(found.first, next);
      const ops::Selection one(Box::whole(3), piece, spec);
      std::vector<std::byte> bytes(one.bytes(1));
      one.pack(reinterpret_cast<const std::byte*>(whole.data()), bytes.data(), 1);
      ASSERT_EQ(bytes.size(), static_cast<size_t>(found.count) * row);
      EXPECT_EQ(std::memcmp(bytes.data(), expected.data() + static_cast<size_t>(next) * row,
                            bytes.size()),
                0);
      next += found.count;
    }
    EXPECT_EQ(next, rows);
  }
}

}  // namespace
}  // namespace kerf::schedmp
