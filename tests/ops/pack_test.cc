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

// Global row-major numbers of the elements of a box, as its dense local tensor has them whose axes
// lie in `order` in memory (empty: their own). Indices beyond an extent are not there.
std::vector<int64_t> offsets(const Box& box, const Shape& shape, std::vector<int> order = {}) {
  if (order.empty()) {
    order.resize(static_cast<size_t>(shape.rank()));
    std::iota(order.begin(), order.end(), 0);
  }
  std::vector<int64_t> result{0};
  for (const int axis : order) {
    int64_t stride = 1;
    for (int inner = axis + 1; inner < shape.rank(); ++inner) stride *= shape[inner];
    std::vector<int64_t> longer;
    for (const int64_t prefix : result)
      for (int64_t i = 0; i < shape[axis]; ++i)
        if (box.axes[static_cast<size_t>(axis)].contains(i)) longer.push_back(prefix + i * stride);
    result = std::move(longer);
  }
  return result;
}

struct Case {
  ValueSpec spec;
  Box holder;
  Box piece;
  int64_t samples = 0;          // of the micro-batch
  std::vector<int> order = {};  // of the local tensor's axes in memory

  Selection selection() const { return Selection(holder, piece, spec, order); }
  std::vector<int64_t> held() const {
    return offsets(holder, spec.shape.with_batch(samples), order);
  }
  std::vector<int64_t> wanted() const { return offsets(piece, spec.shape.with_batch(samples)); }
  std::string text() const {
    return format("{} {} {} of {} samples, in the order [{}]", to_string(spec.shape),
                  to_string(holder), to_string(piece), samples, fmt::join(order, ", "));
  }
};

// Tensors of up to four axes, of which any may count samples, once or several times each; of a
// largest micro-batch of five samples what is held and what is wanted are any subsets.
class DrawCase {
 public:
  Case operator()(DType dtype) {
    Case drawn;
    std::vector<int64_t> extents(1 + engine_() % 4);
    for (int64_t& extent : extents) extent = 1 + static_cast<int64_t>(engine_() % 6);
    if (engine_() % 4 != 0)
      extents[engine_() % extents.size()] = kBatch * (1 + static_cast<int64_t>(engine_() % 3));
    drawn.spec = {dtype, Shape(std::span<const int64_t>(extents))};
    drawn.samples = static_cast<int64_t>(engine_() % (kLargest + 1));
    for (const int64_t extent : extents) {
      const int64_t most = concrete_extent(extent, kLargest);
      const IndexSet held = subset(IndexSet::all(), most);
      drawn.holder.axes.push_back(held);
      drawn.piece.axes.push_back(subset(held, most));
    }
    if (engine_() % 3 == 0) {
      drawn.order.resize(extents.size());
      std::iota(drawn.order.begin(), drawn.order.end(), 0);
      std::shuffle(drawn.order.begin(), drawn.order.end(), engine_);
    }
    return drawn;
  }

 private:
  static constexpr int64_t kLargest = 5;

  // What is all of a batch is written "all", as in layouts.
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
  DrawCase draw;
  for (int round = 0; round < 3000; ++round) {
    const Case drawn = draw(dtype);
    SCOPED_TRACE(drawn.text());
    const Selection selection = drawn.selection();
    const auto held = drawn.held();
    const auto wanted = drawn.wanted();
    ASSERT_EQ(selection.bytes(drawn.samples), wanted.size() * sizeof(T));

    const std::vector<T> local = numbered<T>(held);
    std::vector<T> dense(wanted.size());
    selection.pack(bytes(local), bytes(dense), drawn.samples);
    ASSERT_EQ(dense, numbered<T>(wanted));

    std::vector<T> restored(held.size(), 0);
    selection.unpack(bytes(dense), bytes(restored), drawn.samples);
    for (size_t i = 0; i < held.size(); ++i) {
      const bool inside = std::binary_search(wanted.begin(), wanted.end(), held[i]);
      ASSERT_EQ(restored[i], inside ? local[i] : T{0}) << i;
    }
  }
}

TEST(Selection, PacksAndUnpacksFloatsByGlobalIndex) { expect_exact<float>(DType::kFloat32); }
TEST(Selection, PacksAndUnpacksIntegersByGlobalIndex) { expect_exact<int64_t>(DType::kInt64); }
TEST(Selection, PacksAndUnpacksBytesByGlobalIndex) { expect_exact<uint8_t>(DType::kBool); }
TEST(Selection, PacksAndUnpacksHalvesByGlobalIndex) {
  expect_exact<uint16_t>(DType::kFloat16);
  expect_exact<uint16_t>(DType::kBFloat16);
}

// <pack x, y> = <x, unpack_add y>, exactly: the numbers are small integers. And pack_add is pack
// onto what is there.
TEST(Selection, PackAndUnpackAddAreAdjoint) {
  DrawCase draw;
  std::mt19937_64 engine(4);
  const auto random = [&](size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(engine() % 17) - 8;
    return values;
  };
  for (int round = 0; round < 3000; ++round) {
    const Case drawn = draw(DType::kFloat32);
    SCOPED_TRACE(drawn.text());
    const Selection selection = drawn.selection();
    const std::vector<float> x = random(drawn.held().size());
    const std::vector<float> y = random(drawn.wanted().size());
    std::vector<float> packed(y.size());
    selection.pack(bytes(x), bytes(packed), drawn.samples);
    std::vector<float> added(x.size(), 0.0F);
    selection.unpack_add(bytes(y), bytes(added), drawn.samples);
    ASSERT_EQ(std::inner_product(packed.begin(), packed.end(), y.begin(), 0.0),
              std::inner_product(x.begin(), x.end(), added.begin(), 0.0));
    std::vector<float> sums = y;
    selection.pack_add(bytes(x), bytes(sums), drawn.samples);
    for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(sums[i], y[i] + packed[i]) << i;
  }
}

TEST(Selection, AddsToWhatIsThere) {
  const Selection selection(Box::whole(2), {{IndexSet::all(), IndexSet::of({0, 2})}},
                            {DType::kFloat32, {kBatch, 3}});
  std::vector<float> local{1, 2, 3, 4, 5, 6};
  const std::vector<float> dense{10, 20, 30, 40};
  selection.unpack_add(bytes(dense), bytes(local), 2);
  EXPECT_THAT(local, testing::ElementsAre(11, 2, 23, 34, 5, 46));
  std::vector<float> sums{1, 1, 1, 1};
  selection.pack_add(bytes(local), bytes(sums), 2);
  EXPECT_THAT(sums, testing::ElementsAre(12, 24, 35, 47));
  selection.pack_add(bytes(local), bytes(sums), 1);  // of one sample only
  EXPECT_THAT(sums, testing::ElementsAre(23, 47, 35, 47));
}

TEST(Selection, KnowsWhenThereIsNothingToPick) {
  const ValueSpec spec{DType::kFloat32, {kBatch, 10}};
  const Box half{{IndexSet::all(), IndexSet::range(0, 5)}};
  EXPECT_TRUE(Selection(half, half, spec).everything());
  EXPECT_TRUE(
      Selection(Box::whole(2), {{IndexSet::all(), IndexSet::range(0, 10)}}, spec).everything());
  EXPECT_FALSE(Selection(Box::whole(2), half, spec).everything());
  EXPECT_TRUE(Selection(Box::whole(1), Box::whole(1), {DType::kInt64, {kBatch}}).everything());
  EXPECT_TRUE(Selection({}, {}, {DType::kFloat32, {}}).everything());
  EXPECT_EQ(Selection({}, {}, {DType::kFloat32, {}}).bytes(9), 4U);
}

TEST(Selection, MovesAsFewRunsAsThereCanBe) {
  const auto runs = [](const Box& holder, const Box& piece, const Shape& shape) {
    return Selection(holder, piece, {DType::kFloat32, shape}).runs().size();
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

TEST(Selection, RefusesWhatTheHolderLacks) {
  const ValueSpec spec{DType::kFloat32, {kBatch, 10}};
  const Box half{{IndexSet::all(), IndexSet::range(0, 5)}};
  EXPECT_THROW(Selection(half, Box::whole(2), spec), Error);
  EXPECT_THROW(Selection(half, {{IndexSet::all(), IndexSet::range(4, 6)}}, spec), Error);
  const Box outside{{IndexSet::all(), IndexSet::range(5, 11)}};
  EXPECT_THROW(Selection(outside, outside, spec), Error);
  EXPECT_THROW(Selection(Box::whole(1), Box::whole(1), spec), Error);
}

// Index sets of the batch are of the largest micro-batch; a smaller one has less of them, or
// nothing.
TEST(Selection, ClipsADividedBatchToTheMicroBatch) {
  const ValueSpec spec{DType::kFloat32, {kBatch, 2}};
  const Box held{{IndexSet::of({0, 3, 4, 6}), IndexSet::all()}};
  const Selection selection(held, {{IndexSet::of({3, 4, 6}), IndexSet::range(1, 2)}}, spec);
  EXPECT_FALSE(selection.everything());
  const std::vector<float> local{0, 1, 30, 31, 40, 41, 60, 61};
  const auto packed = [&](int64_t samples) {
    std::vector<float> dense(selection.bytes(samples) / sizeof(float));
    selection.pack(bytes(local), bytes(dense), samples);
    return dense;
  };
  EXPECT_THAT(packed(7), testing::ElementsAre(31, 41, 61));
  EXPECT_THAT(packed(6), testing::ElementsAre(31, 41));
  EXPECT_THAT(packed(4), testing::ElementsAre(31));
  EXPECT_THAT(packed(3), testing::IsEmpty());
  EXPECT_THAT(packed(0), testing::IsEmpty());

  const Selection all_of_it(held, held, spec);
  EXPECT_TRUE(all_of_it.everything());
  EXPECT_EQ(all_of_it.bytes(7), 8 * sizeof(float));
  EXPECT_EQ(all_of_it.bytes(4), 4 * sizeof(float));
  EXPECT_EQ(all_of_it.bytes(0), 0U);
  EXPECT_THROW(Selection(held, {{IndexSet::of({3, 5}), IndexSet::all()}}, spec), Error);
  EXPECT_THROW(Selection(held, Box::whole(2), spec), Error) << "nobody knows that 0-7 are all";
}

TEST(Selection, OfNothingMovesNothing) {
  const Box held{{IndexSet::range(0, 2), IndexSet::all()}};
  const Selection selection(held, {{IndexSet::none(), IndexSet::all()}},
                            {DType::kFloat32, {kBatch, 3}});
  EXPECT_FALSE(selection.everything());
  EXPECT_EQ(selection.bytes(2), 0U);
  std::vector<float> local{1, 2, 3, 4, 5, 6};
  selection.pack(bytes(local), nullptr, 2);
  selection.unpack(nullptr, bytes(local), 2);
  selection.unpack_add(nullptr, bytes(local), 2);
  EXPECT_THAT(local, testing::ElementsAre(1, 2, 3, 4, 5, 6));
}

// [T, N, D]: what lies before the batch is repeated for every index of it.
TEST(Selection, TakesABatchOnAnyAxis) {
  const Selection selection(Box::whole(3),
                            {{IndexSet::of({1}), IndexSet::range(1, 3), IndexSet::of({0})}},
                            {DType::kFloat32, {2, kBatch, 2}});
  const std::vector<float> three{0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121};
  std::vector<float> dense(2);
  ASSERT_EQ(selection.bytes(3), 8U);
  selection.pack(bytes(three), bytes(dense), 3);
  EXPECT_THAT(dense, testing::ElementsAre(110, 120));
  const std::vector<float> two{0, 1, 10, 11, 100, 101, 110, 111};
  ASSERT_EQ(selection.bytes(2), 4U);
  selection.pack(bytes(two), bytes(dense), 2);
  EXPECT_EQ(dense[0], 110);
}

// Images as [N, H, W, C] in memory, in messages as [N, C, H, W].
TEST(Selection, ReordersAxes) {
  const std::vector<int> channels_last{0, 2, 3, 1};
  const ValueSpec spec{DType::kFloat32, {kBatch, 2, 1, 2}};
  const Selection selection(Box::whole(4), Box::whole(4), spec, channels_last);
  EXPECT_FALSE(selection.everything());
  const std::vector<float> local{0, 10, 1, 11, 100, 110, 101, 111};
  std::vector<float> dense(8);
  selection.pack(bytes(local), bytes(dense), 2);
  EXPECT_THAT(dense, testing::ElementsAre(0, 1, 10, 11, 100, 101, 110, 111));
  std::vector<float> back(8);
  selection.unpack(bytes(dense), bytes(back), 2);
  EXPECT_EQ(back, local);
  EXPECT_TRUE(Selection(Box::whole(4), Box::whole(4), spec, {0, 1, 2, 3}).everything());
  EXPECT_THROW(Selection(Box::whole(4), Box::whole(4), spec, {1, 0}), Error);
}

TEST(Selection, AddsDoubles) {
  const Selection selection(Box::whole(1), {{IndexSet::of({1, 2, 4})}}, {DType::kFloat64, {5}});
  const std::vector<double> dense{10, 1e-10, 1e300};
  std::vector<double> local{1, 2, 3, 4, 1e300};
  selection.unpack_add(bytes(dense), bytes(local), 1);
  EXPECT_THAT(local, testing::ElementsAre(1, 12, 3 + 1e-10, 4, 2e300));
}

TEST(Selection, DoesNotAddIntegers) {
  const Selection selection(Box::whole(1), Box::whole(1), {DType::kInt64, {4}});
  std::vector<int64_t> values(4);
  EXPECT_THROW(selection.unpack_add(bytes(values), bytes(values), 1), Error);
  EXPECT_THROW(selection.pack_add(bytes(values), bytes(values), 1), Error);
}

// GCC's OpenMP runtime is not built for it: every barrier would be reported as a race.
#ifdef __SANITIZE_THREAD__
constexpr bool kUnderThreadSanitizer = true;
#else
constexpr bool kUnderThreadSanitizer = false;
#endif

// Large selections are shared out over threads; the bits stay.
TEST(Selection, IsTheSameOnAnyNumberOfThreads) {
  if (kUnderThreadSanitizer) GTEST_SKIP() << "OpenMP's barriers are unknown to ThreadSanitizer";
  const Shape shape{kBatch, 301};
  const int64_t samples = 513;
  std::mt19937_64 engine(9);
  std::vector<int64_t> some;
  for (int64_t i = 0; i < shape[1]; ++i)
    if (engine() % 4 != 0) some.push_back(i);
  const Selection selection(Box::whole(2), {{IndexSet::all(), IndexSet::of(some)}},
                            {DType::kFloat32, shape});
  std::vector<float> local(static_cast<size_t>(samples * shape[1]));
  std::vector<float> dense(selection.bytes(samples) / sizeof(float));
  for (float& value : local) value = static_cast<float>(engine() % 1000) / 7;
  for (float& value : dense) value = static_cast<float>(engine() % 1000) / 3;
  const int before = omp_get_max_threads();
  std::vector<std::vector<float>> packed;
  std::vector<std::vector<float>> added;
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    packed.emplace_back(dense.size());
    selection.pack(bytes(local), bytes(packed.back()), samples);
    added.push_back(local);
    selection.unpack_add(bytes(dense), bytes(added.back()), samples);
  }
  omp_set_num_threads(before);
  for (size_t i = 1; i < packed.size(); ++i) {
    EXPECT_EQ(packed[i], packed[0]);
    EXPECT_EQ(added[i], added[0]);
  }
}

}  // namespace
}  // namespace kerf::ops
