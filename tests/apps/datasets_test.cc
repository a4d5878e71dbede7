#include "apps/data/datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "apps/models.h"
#include "tests/support/errors.h"

namespace kerf::apps {
namespace {

using schedmp::Split;
using testing::HasSubstr;
using tests::error_of;

std::vector<float> features(const schedmp::Dataset& data, const std::vector<int64_t>& rows) {
  std::vector<float> values(rows.size() * static_cast<size_t>(data.features()));
  data.read_features(rows, {ops::DType::kFloat32,
                            {static_cast<int64_t>(rows.size()), data.features()},
                            reinterpret_cast<std::byte*>(values.data())});
  return values;
}

std::vector<int64_t> labels(const schedmp::Dataset& data, const std::vector<int64_t>& rows) {
  std::vector<int64_t> values(rows.size());
  data.read_labels(rows, {ops::DType::kInt64,
                          {static_cast<int64_t>(rows.size())},
                          reinterpret_cast<std::byte*>(values.data())});
  return values;
}

TEST(Synthetic, IsTheSameForEverybodyAndAnyOrderOfReading) {
  const auto mine = make_dataset("synthetic:64x10x3", Split::kTrain);
  const auto yours = make_dataset("synthetic:64x10x3", Split::kTrain);
  EXPECT_EQ(mine->fingerprint(), yours->fingerprint());
  const auto all = features(*mine, {0, 1, 2, 3});
  const auto last = features(*yours, {3});
  EXPECT_TRUE(std::equal(last.begin(), last.end(), all.begin() + 30));
  EXPECT_EQ(labels(*mine, {5, 9}), labels(*yours, {5, 9}));
}

TEST(Synthetic, TrainAndTestDiffer) {
  const auto train = make_dataset("synthetic:64x10x3", Split::kTrain);
  const auto test = make_dataset("synthetic:64x10x3", Split::kTest);
  EXPECT_EQ(test->rows(), 8);
  EXPECT_NE(train->fingerprint(), test->fingerprint());
  EXPECT_NE(features(*train, {0}), features(*test, {0}));
}

TEST(Synthetic, LabelsCoverTheClassesAndValuesAreBounded) {
  const auto data = make_dataset("synthetic:200x7x4", Split::kTrain);
  std::vector<int64_t> rows(200);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  std::vector<int> seen(4);
  for (const int64_t label : labels(*data, rows)) ++seen.at(static_cast<size_t>(label));
  EXPECT_THAT(seen, testing::Each(testing::Gt(20)));
  EXPECT_THAT(features(*data, rows),
              testing::Each(testing::AllOf(testing::Ge(-1.5F), testing::Lt(1.5F))));
}

TEST(Synthetic, BadSizesAreRefused) {
  for (const char* sizes : {"", "4", "4x5", "0x4x2", "4x-1x2", "4x5x2x1", "4x5x2x", "axbxc",
                            "999999999x999999999x2", "99999999999999999999x1x1"}) {
    const auto error =
        error_of([&] { make_dataset(std::string("synthetic:") + sizes, Split::kTrain); });
    ASSERT_TRUE(error) << sizes;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
  }
}

TEST(Datasets, UnknownNameListsTheKnownOnes) {
  const auto error = error_of([] { make_dataset("imagenet", Split::kTrain); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), testing::AllOf(HasSubstr("imagenet"), HasSubstr("fashion-mnist"),
                                            HasSubstr("synthetic")));
}

TEST(Datasets, SyntheticTakesItsSizesFromTheModel) {
  EXPECT_EQ(complete_dataset_name("synthetic", make_model("lenet5"), 512), "synthetic:512x784x10");
  EXPECT_EQ(complete_dataset_name("synthetic", make_model("mlp 20-8-3"), 512),
            "synthetic:512x20x3");
  EXPECT_EQ(complete_dataset_name("synthetic:9x9x9", make_model("lenet5"), 512), "synthetic:9x9x9");
  EXPECT_EQ(complete_dataset_name("fashion-mnist", make_model("lenet5"), 512), "fashion-mnist");
  // As workers find it that were started elsewhere.
  EXPECT_EQ(complete_dataset_name("fashion-mnist:here/there", make_model("lenet5"), 512),
            "fashion-mnist:" + (std::filesystem::current_path() / "here/there").string());
  EXPECT_EQ(complete_dataset_name("fashion-mnist:/there", make_model("lenet5"), 512),
            "fashion-mnist:/there");
}

TEST(Datasets, RowsThatDoNotFitTheModelAreRefused) {
  const auto model = make_model("mlp 20-8-3");
  const auto wide = make_dataset("synthetic:4x21x3", Split::kTrain);
  const auto error = error_of([&] { check_dataset(*wide, "synthetic:4x21x3", model); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("21 features"));
  const auto many = make_dataset("synthetic:4x20x4", Split::kTrain);
  EXPECT_TRUE(error_of([&] { check_dataset(*many, "synthetic:4x20x4", model); }));
}

TEST(Models, SourceTextReadsBack) {
  EXPECT_EQ(make_model(model_source("mlp", "20-8-3")).value(0).spec.shape[1], 20);
  EXPECT_EQ(make_model(model_source("lenet5", "")).name(), "lenet5");
  EXPECT_TRUE(error_of([] { make_model("resnet"); }));
  EXPECT_TRUE(error_of([] { make_model("mlp 20-x"); }));
}

}  // namespace
}  // namespace kerf::apps
