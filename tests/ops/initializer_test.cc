// Parameters begin with the same bits however they are cut.
#include "ops/initializer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <random>

#include "ops/pack.h"
#include "ops/random.h"

namespace kerf::ops {
namespace {

using Kind = Initializer::Kind;

std::vector<float> make(const Box& box, const Shape& shape, const Initializer& initializer,
                        uint64_t seed = 1, uint32_t parameter = 0) {
  const Shape local = local_shape(box, shape);
  std::vector<float> values(static_cast<size_t>(local.elements()));
  initialize({DType::kFloat32, local, reinterpret_cast<std::byte*>(values.data())}, box, shape,
             initializer, seed, parameter);
  return values;
}

TEST(Initializer, NamesAreReadBack) {
  for (const Kind kind : {Kind::kZero, Kind::kOne, Kind::kUniform, Kind::kNormal})
    EXPECT_EQ(parse_initializer(std::string(to_string(kind))), kind);
  EXPECT_THROW(parse_initializer("xavier"), Error);
}

TEST(Initializer, FillsWithConstants) {
  EXPECT_EQ(make(Box::whole(1), {3}, {Kind::kZero, 0}), std::vector<float>(3, 0.0F));
  EXPECT_EQ(make(Box::whole(1), {3}, {Kind::kOne, 0}), std::vector<float>(3, 1.0F));
}

TEST(Initializer, UniformStaysWithinItsScale) {
  const auto values = make(Box::whole(2), {500, 400}, {Kind::kUniform, 0.1});
  double sum = 0;
  double largest = 0;
  for (const float value : values) {
    ASSERT_GE(value, -0.1F);
    ASSERT_LT(value, 0.1F);
    sum += value;
    largest = std::max<double>(largest, std::abs(value));
  }
  EXPECT_NEAR(sum / 200000, 0, 5 * 0.1 / std::sqrt(3.0 * 200000));
  EXPECT_GT(largest, 0.0999);
}

TEST(Initializer, NormalHasItsDeviation) {
  const auto values = make(Box::whole(2), {500, 400}, {Kind::kNormal, 0.02});
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  EXPECT_NEAR(std::sqrt(squares / 200000), 0.02, 5 * 0.02 / std::sqrt(2.0 * 200000));
}

TEST(Initializer, EveryElementIsAFunctionOfItsGlobalIndex) {
  const auto values = make(Box::whole(2), {30, 41}, {Kind::kUniform, 0.5}, 9, 4);
  const RandomKey key{9, kParameterPurpose + 4, 0, 0};
  for (int64_t i = 0; i < 30 * 41; ++i)
    EXPECT_EQ(values[static_cast<size_t>(i)], (2 * uniform(key, i) - 1) * 0.5F);
}

TEST(Initializer, SharesHoldTheBitsOfTheWhole) {
  std::mt19937_64 engine(2);
  const Shape shape{7, 5, 3, 3};
  const auto draw = [&] {
    Box box;
    for (const int64_t extent : shape) {
      std::vector<int64_t> kept;
      for (int64_t i = 0; i < extent; ++i)
        if (engine() % 3 != 0) kept.push_back(i);
      box.axes.push_back(IndexSet::of(kept).normalized(extent));
    }
    return box;
  };
  for (const Kind kind : {Kind::kUniform, Kind::kNormal}) {
    const auto whole = make(Box::whole(4), shape, {kind, 0.3});
    for (int round = 0; round < 200; ++round) {
      const Box box = draw();
      const Selection selection(Box::whole(4), box, {DType::kFloat32, shape});
      std::vector<float> expected(selection.bytes(1) / sizeof(float));
      selection.pack(reinterpret_cast<const std::byte*>(whole.data()),
                     reinterpret_cast<std::byte*>(expected.data()), 1);
      EXPECT_EQ(make(box, shape, {kind, 0.3}), expected) << to_string(box);
    }
  }
}

TEST(Initializer, DiffersBySeedAndParameter) {
  const auto values = make(Box::whole(1), {64}, {Kind::kUniform, 1}, 1, 0);
  EXPECT_NE(values, make(Box::whole(1), {64}, {Kind::kUniform, 1}, 2, 0));
  EXPECT_NE(values, make(Box::whole(1), {64}, {Kind::kUniform, 1}, 1, 1));
}

TEST(Initializer, RefusesScalesThatAreNone) {
  EXPECT_THROW(make(Box::whole(1), {3}, {Kind::kUniform, -1}), Error);
  EXPECT_THROW(make(Box::whole(1), {3}, {Kind::kUniform, NAN}), Error);
  EXPECT_THROW(make(Box::whole(1), {3}, {Kind::kNormal, INFINITY}), Error);
  EXPECT_THROW(make(Box::whole(1), {3}, {Kind::kNormal, 1e300}), Error);
}

TEST(Initializer, IsFastForLargeParameters) {
  for (const Kind kind : {Kind::kUniform, Kind::kNormal}) {
    const auto start = std::chrono::steady_clock::now();
    const auto values = make(Box::whole(2), {2048, 2048}, {kind, 0.02});
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    RecordProperty("milliseconds_" + std::string(to_string(kind)),
                   static_cast<int>(taken.count() * 1e3));
    EXPECT_LT(taken.count(), 5);  // generous: sanitizers and busy machines; it is below 0.1 s
    EXPECT_EQ(values.size(), size_t{2048} * 2048);
  }
}

}  // namespace
}  // namespace kerf::ops
