// Moving boxes: every element arrives where its global index says, and packing and adding are each
// other's adjoint.
#include "ops/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace kerf::ops {
namespace {

// Global row-major numbers of the elements of a box, in the order of its dense local tensor.
std::vector<int64_t> elements(const Box& box, const Shape& shape) {
  std::vector<int64_t> result{0};
  for (int axis = 0; axis < shape.rank(); ++axis) {
    std::vector<int64_t> longer;
    for (const int64_t prefix : result)
      for (const Range& range : box.axes[static_cast<size_t>(axis)].ranges(shape[axis]))
        for (int64_t i = range.begin; i < range.end; ++i)
          longer.push_back(prefix * shape[axis] + i);
    result = std::move(longer);
  }
  return result;
}

struct Case {
  ValueSpec spec;
  Box holder;
  Box piece;
  int64_t samples = 0;

  std::vector<int64_t> held() const { return elements(holder, spec.shape.with_batch(samples)); }
  std::vector<int64_t> wanted() const { return elements(piece, spec.shape.with_batch(samples)); }
  std::string text() const {
    return to_string(spec.shape) + " " + to_string(holder) + " " + to_string(piece);
  }
};

class Draw {
 public:
  Case operator()(DType dtype) {
    Case drawn;
    std::vector<int64_t> extents(1 + engine_() % 4);
    for (int64_t& extent : extents) extent = 1 + static_cast<int64_t>(engine_() % 6);
    const bool batched = engine_() % 2 == 0;
    if (batched) extents[0] = kBatch;
    drawn.spec = {dtype, Shape(std::span<const int64_t>(extents))};
    drawn.samples = static_cast<int64_t>(engine_() % 4);
    for (const int64_t extent : extents) {
      const IndexSet held = extent == kBatch ? IndexSet::all() : subset(IndexSet::all(), extent);
      drawn.holder.axes.push_back(held);
      drawn.piece.axes.push_back(extent == kBatch ? held : subset(held, extent));
    }
    return drawn;
  }

 private:
  IndexSet subset(const IndexSet& of, int64_t extent) {
    if (engine_() % 3 == 0) return of;
    std::vector<int64_t> kept;
    for (const Range& range : of.ranges(extent))
      for (int64_t i = range.begin; i < range.end; ++i)
        if (engine_() % 3 != 0) kept.push_back(i);
    return IndexSet::of(kept).normalized(extent);
  }

  std::mt19937_64 engine_{3};
};

template <class T>
std::vector<T> numbered(const std::vector<int64_t>& elements) {
  std::vector<T> values;
  for (const int64_t element : elements) values.push_back(static_cast<T>(element + 1));
  return values;
}

template <class T>
const std::byte* bytes(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}
template <class T>
std::byte* bytes(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

template <class T>
void expect_exact(DType dtype) {
  Draw draw;
  for (int round = 0; round < 3000; ++round) {
    const Case drawn = draw(dtype);
    SCOPED_TRACE(drawn.text());
    const Region region(drawn.holder, drawn.piece, drawn.spec);
    const auto held = drawn.held();
    const auto wanted = drawn.wanted();
    ASSERT_EQ(region.bytes(drawn.samples), wanted.size() * sizeof(T));

    const std::vector<T> local = numbered<T>(held);
    std::vector<T> dense(wanted.size());
    region.pack(bytes(local), bytes(dense), drawn.samples);
    ASSERT_EQ(dense, numbered<T>(wanted));

    std::vector<T> restored(held.size(), 0);
    region.unpack(bytes(dense), bytes(restored), drawn.samples);
    for (size_t i = 0; i < held.size(); ++i) {
      const bool inside = std::binary_search(wanted.begin(), wanted.end(), held[i]);
      ASSERT_EQ(restored[i], inside ? local[i] : T{0}) << i;
    }
  }
}

TEST(Region, PacksAndUnpacksFloatsByGlobalIndex) { expect_exact<float>(DType::kFloat32); }
TEST(Region, PacksAndUnpacksIntegersByGlobalIndex) { expect_exact<int64_t>(DType::kInt64); }

// <pack x, y> = <x, unpack_add y>, exactly: the numbers are small integers.
TEST(Region, PackAndUnpackAddAreAdjoint) {
  Draw draw;
  std::mt19937_64 engine(4);
  const auto random = [&](size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(engine() % 17) - 8;
    return values;
  };
  for (int round = 0; round < 3000; ++round) {
    const Case drawn = draw(DType::kFloat32);
    SCOPED_TRACE(drawn.text());
    const Region region(drawn.holder, drawn.piece, drawn.spec);
    const std::vector<float> x = random(drawn.held().size());
    const std::vector<float> y = random(drawn.wanted().size());
    std::vector<float> packed(y.size());
    region.pack(bytes(x), bytes(packed), drawn.samples);
    std::vector<float> added(x.size(), 0.0F);
    region.unpack_add(bytes(y), bytes(added), drawn.samples);
    ASSERT_EQ(std::inner_product(packed.begin(), packed.end(), y.begin(), 0.0),
              std::inner_product(x.begin(), x.end(), added.begin(), 0.0));
  }
}

TEST(Region, AddsToWhatIsThere) {
  const Region region(Box::whole(2), {{IndexSet::all(), IndexSet::of({0, 2})}},
                      {DType::kFloat32, {kBatch, 3}});
  std::vector<float> local{1, 2, 3, 4, 5, 6};
  const std::vector<float> dense{10, 20, 30, 40};
  region.unpack_add(bytes(dense), bytes(local), 2);
  EXPECT_THAT(local, testing::ElementsAre(11, 2, 23, 34, 5, 46));
}

TEST(Region, KnowsWhenThereIsNothingToPick) {
  const ValueSpec spec{DType::kFloat32, {kBatch, 10}};
  const Box half{{IndexSet::all(), IndexSet::range(0, 5)}};
  EXPECT_TRUE(Region(half, half, spec).everything());
  EXPECT_TRUE(
      Region(Box::whole(2), {{IndexSet::all(), IndexSet::range(0, 10)}}, spec).everything());
  EXPECT_FALSE(Region(Box::whole(2), half, spec).everything());
  EXPECT_TRUE(Region(Box::whole(1), Box::whole(1), {DType::kInt64, {kBatch}}).everything());
  EXPECT_TRUE(Region({}, {}, {DType::kFloat32, {}}).everything());
  EXPECT_EQ(Region({}, {}, {DType::kFloat32, {}}).bytes(9), 4U);
}

TEST(Region, MovesAsFewRunsAsThereCanBe) {
  const auto runs = [](const Box& holder, const Box& piece, const Shape& shape) {
    return Region(holder, piece, {DType::kFloat32, shape}).runs().size();
  };
  const IndexSet all = IndexSet::all();
  EXPECT_EQ(runs(Box::whole(2), {{all, IndexSet::range(3, 7)}}, {kBatch, 10}), 1U);
  EXPECT_EQ(runs(Box::whole(4), {{all, IndexSet::range(2, 4), all, all}}, {kBatch, 6, 8, 8}), 1U);
  EXPECT_EQ(runs(Box::whole(2), {{IndexSet::range(2, 5), all}}, {10, 8}), 1U);
  EXPECT_EQ(runs(Box::whole(2), {{all, IndexSet::range(2, 5)}}, {10, 8}), 10U);
  // The end of a row and the beginning of the next are neighbours.
  EXPECT_EQ(runs(Box::whole(2), {{all, IndexSet::of({0, 7})}}, {10, 8}), 11U);
  // Indices far apart may lie side by side where the holder has none between them.
  const Box scattered{{all, IndexSet::of({0, 4, 8, 9})}};
  EXPECT_EQ(runs(scattered, {{all, IndexSet::of({4, 8})}}, {kBatch, 10}), 1U);
}

TEST(Region, RefusesWhatTheHolderLacks) {
  const ValueSpec spec{DType::kFloat32, {kBatch, 10}};
  const Box half{{IndexSet::all(), IndexSet::range(0, 5)}};
  EXPECT_THROW(Region(half, Box::whole(2), spec), Error);
  EXPECT_THROW(Region(half, {{IndexSet::all(), IndexSet::range(4, 6)}}, spec), Error);
  const Box outside{{IndexSet::all(), IndexSet::range(5, 11)}};
  EXPECT_THROW(Region(outside, outside, spec), Error);
  EXPECT_THROW(Region(Box::whole(1), Box::whole(1), spec), Error);
}

TEST(Region, RefusesToDivideABatch) {
  const Box rows{{IndexSet::range(0, 2), IndexSet::all()}};
  EXPECT_THROW(Region(Box::whole(2), rows, {DType::kFloat32, {kBatch, 10}}), Error);
  EXPECT_NO_THROW(Region(Box::whole(2), rows, {DType::kFloat32, {4, 10}}));
}

TEST(Region, DoesNotAddIntegers) {
  const Region region(Box::whole(1), Box::whole(1), {DType::kInt64, {4}});
  std::vector<int64_t> values(4);
  EXPECT_THROW(region.unpack_add(bytes(values), bytes(values), 1), Error);
}

// GCC's OpenMP runtime is not built for it: every barrier would be reported as a race.
#ifdef __SANITIZE_THREAD__
constexpr bool kUnderThreadSanitizer = true;
#else
constexpr bool kUnderThreadSanitizer = false;
#endif

// Large regions are shared out over threads; the bits stay.
TEST(Region, IsTheSameOnAnyNumberOfThreads) {
  if (kUnderThreadSanitizer) GTEST_SKIP() << "OpenMP's barriers are unknown to ThreadSanitizer";
  const Shape shape{kBatch, 301};
  const int64_t samples = 513;
  std::mt19937_64 engine(9);
  std::vector<int64_t> some;
  for (int64_t i = 0; i < shape[1]; ++i)
    if (engine() % 4 != 0) some.push_back(i);
  const Region region(Box::whole(2), {{IndexSet::all(), IndexSet::of(some)}},
                      {DType::kFloat32, shape});
  std::vector<float> local(static_cast<size_t>(samples * shape[1]));
  std::vector<float> dense(region.bytes(samples) / sizeof(float));
  for (float& value : local) value = static_cast<float>(engine() % 1000) / 7;
  for (float& value : dense) value = static_cast<float>(engine() % 1000) / 3;
  const int before = omp_get_max_threads();
  std::vector<std::vector<float>> packed;
  std::vector<std::vector<float>> added;
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    packed.emplace_back(dense.size());
    region.pack(bytes(local), bytes(packed.back()), samples);
    added.push_back(local);
    region.unpack_add(bytes(dense), bytes(added.back()), samples);
  }
  omp_set_num_threads(before);
  for (size_t i = 1; i < packed.size(); ++i) {
    EXPECT_EQ(packed[i], packed[0]);
    EXPECT_EQ(added[i], added[0]);
  }
}

}  // namespace
}  // namespace kerf::ops
