// Inputs that a person gives: an array of NumPy for each.
#include "apps/data/given_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "apps/models.h"
#include "runtime/json.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

using ops::DType;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using tests::error_of;

class Given : public testing::Test {
 protected:
  template <class Number>
  void save(const std::string& name, DType dtype, const ops::Shape& shape,
            std::vector<Number> numbers) {
    write_npy(folder_ / name, {dtype, shape, reinterpret_cast<std::byte*>(numbers.data())});
  }
  std::string name(const std::string& input, const std::string& file) const {
    return json_text(Json{{input, (folder_ / file).string()}});
  }
  template <class Number>
  static std::vector<Number> read(const schedmp::Dataset& data, const char* input,
                                  const std::vector<int64_t>& rows) {
    const ops::ValueSpec spec = data.input(input).value();
    const ops::Shape shape = spec.shape.with_batch(std::ssize(rows));
    std::vector<Number> values(static_cast<size_t>(shape.elements()));
    data.read_input(input, rows, {spec.dtype, shape, reinterpret_cast<std::byte*>(values.data())});
    return values;
  }
  tests::TemporaryFolder folder_;
};

TEST_F(Given, NumbersOfAnyFloatingTypeAreFloat32) {
  save<uint16_t>("half.npy", DType::kFloat16, {2, 2}, {0x3c00, 0xc000, 0x0001, 0x7c00});
  save<uint16_t>("brain.npy", DType::kBFloat16, {2, 1}, {0x3fc0, 0xc040});
  save<double>("double.npy", DType::kFloat64, {3, 1}, {0.5, 1e300, -2});
  const GivenInputs half(name("x", "half.npy"));
  EXPECT_EQ(half.input("x"), (ops::ValueSpec{DType::kFloat32, {ops::kBatch, 2}}));
  EXPECT_FALSE(half.input("y"));
  EXPECT_THAT(read<float>(half, "x", {1, 0}), ElementsAre(0x1p-24F, INFINITY, 1, -2));
  EXPECT_THAT(read<float>(GivenInputs(name("x", "brain.npy")), "x", {0, 1}), ElementsAre(1.5F, -3));
  EXPECT_THAT(read<float>(GivenInputs(name("x", "double.npy")), "x", {2, 1, 0}),
              ElementsAre(-2, INFINITY, 0.5F));
}

TEST_F(Given, IndicesBeyondTheVocabularyAreNamedWithTheirRow) {
  const auto model = make_model("lstm-lm 3-7-4-6");
  const std::string of = name("tokens", "tokens.npy");
  for (const int64_t odd : {int64_t{6}, int64_t{7}, int64_t{-1}}) {
    std::vector<int64_t> tokens(60);
    tokens[3 * 19 + 1] = odd;
    save("tokens.npy", DType::kInt64, {20, 3}, tokens);
    const GivenInputs data(of, {{}, &model});
    EXPECT_FALSE(error_of([&] { read<int64_t>(data, "tokens", {0, 18}); })) << "in other rows";
    const auto error = error_of([&] { read<int64_t>(data, "tokens", {18, 19}); });
    ASSERT_EQ(error.has_value(), odd != 6) << odd;
    if (!error) continue;
    EXPECT_THAT(
        error->what(),
        AllOf(HasSubstr("tokens.npy"),
              HasSubstr(format("row 19 has the number {}, but the model picks from 7", odd))));
    EXPECT_FALSE(error_of([&] { read<int64_t>(GivenInputs(of), "tokens", {19}); }))
        << "no model picks by them";
  }
}

TEST_F(Given, AnInputIsGivenAFile) {
  const auto model = make_model("lenet5");
  for (const char* given : {"image=", "=x.npy", "image"}) {
    const auto error = error_of([&] { given_inputs_name({given}, model, "--input"); });
    ASSERT_TRUE(error) << given;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_EQ(error->where(), "--input");
    EXPECT_THAT(error->what(), HasSubstr("write it as in image=x.npy"));
  }
}

TEST_F(Given, WhatIsNoRowsIsNamed) {
  save<float>("one.npy", DType::kFloat32, {}, {1});
  save<float>("none.npy", DType::kFloat32, {0, 3}, {});
  save<float>("two.npy", DType::kFloat32, {2}, {1, 2});
  save<float>("three.npy", DType::kFloat32, {3}, {1, 2, 3});
  const auto complaint = [&](const std::string& of) {
    const auto error = error_of([&] { const GivenInputs data(of); });
    return error ? std::string(error->what()) : "";
  };
  EXPECT_THAT(complaint(name("x", "one.npy")), HasSubstr("one.npy: it has no axis of rows"));
  EXPECT_THAT(complaint(name("x", "none.npy")), HasSubstr("none.npy: it has no rows"));
  EXPECT_EQ(complaint(name("x", "two.npy")), "");
  const Json both{{"x", (folder_ / "two.npy").string()}, {"y", (folder_ / "three.npy").string()}};
  EXPECT_THAT(complaint(json_text(both)),
              AllOf(HasSubstr("three.npy"), HasSubstr("it has 3 rows, but"), HasSubstr("two.npy")));
  const GivenInputs data(name("x", "two.npy"));
  std::vector<int64_t> label(1);
  const auto error = error_of([&] {
    data.read_labels(std::vector<int64_t>{0},
                     {DType::kInt64, {1}, reinterpret_cast<std::byte*>(label.data())});
  });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("they have no labels"));
}

}  // namespace
}  // namespace kerf::apps
