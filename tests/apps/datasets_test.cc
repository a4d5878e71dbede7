#include "apps/data/datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "apps/models.h"
#include "partitioner/builder.h"
#include "tests/support/errors.h"

namespace kerf::apps {
namespace {

using schedmp::Split;
using testing::HasSubstr;
using tests::error_of;

std::vector<float> features(const schedmp::Dataset& data, const std::vector<int64_t>& rows) {
  const int64_t width = data.input("x").value().shape[1];
  std::vector<float> values(rows.size() * static_cast<size_t>(width));
  data.read_input("x", rows,
                  {ops::DType::kFloat32,
                   {static_cast<int64_t>(rows.size()), width},
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

std::vector<int64_t> tokens(const schedmp::Dataset& data, int64_t length, bool labelled,
                            const std::vector<int64_t>& rows) {
  std::vector<int64_t> values(rows.size() * static_cast<size_t>(length));
  const ops::TensorView to{ops::DType::kInt64,
                           {static_cast<int64_t>(rows.size()), length},
                           reinterpret_cast<std::byte*>(values.data())};
  if (labelled)
    data.read_labels(rows, to);
  else
    data.read_input("tokens", rows, to);
  return values;
}

TEST(Tokens, CountAroundTheVocabularyAndAreLabelledWithWhatFollows) {
  const auto data = make_dataset("tokens:80x6x5", Split::kTrain);
  EXPECT_EQ(data->input("tokens"), (ops::ValueSpec{ops::DType::kInt64, {ops::kBatch, 6}}));
  EXPECT_EQ(data->labels(), (ops::Shape{ops::kBatch, 6}));
  EXPECT_EQ(make_dataset("tokens:80x6x5", Split::kTest)->rows(), 10);
  std::set<int64_t> steps;
  for (int64_t row = 0; row < 80; ++row) {
    const auto input = tokens(*data, 6, false, {row});
    const auto follows = tokens(*data, 6, true, {row});
    const int64_t step = (follows[0] - input[0] + 5) % 5;
    steps.insert(step);
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(follows[i], (input[i] + step) % 5) << "row " << row;
      if (i > 0) {
        EXPECT_EQ(input[i], follows[i - 1]) << "row " << row;
      }
    }
  }
  EXPECT_EQ(steps, (std::set<int64_t>{1, 2, 3}));
  EXPECT_EQ(tokens(*data, 6, false, {7, 3})[6], tokens(*data, 6, false, {3})[0]);
}

TEST(TokenPairs, TheTargetGoesOnWhereTheSourceEnds) {
  const auto data = make_dataset("pairs:80x4x3x7", Split::kTrain);
  EXPECT_EQ(data->input("source"), (ops::ValueSpec{ops::DType::kInt64, {ops::kBatch, 4}}));
  EXPECT_EQ(data->input("target"), (ops::ValueSpec{ops::DType::kInt64, {ops::kBatch, 3}}));
  EXPECT_FALSE(data->input("tokens"));
  const auto read = [&](const char* name, int64_t length, int64_t row) {
    std::vector<int64_t> values(static_cast<size_t>(length));
    data->read_input(
        name, std::vector{row},
        {ops::DType::kInt64, {1, length}, reinterpret_cast<std::byte*>(values.data())});
    return values;
  };
  for (int64_t row = 0; row < 80; ++row) {
    const auto source = read("source", 4, row);
    const auto target = read("target", 3, row);
    const auto label = tokens(*data, 3, true, {row});
    const int64_t step = (source[1] - source[0] + 7) % 7;
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_EQ(label[static_cast<size_t>(i)], (source[3] + (i + 1) * step) % 7) << row;
    EXPECT_EQ(target, (std::vector<int64_t>{0, label[0], label[1]})) << row;
  }
}

TEST(Tokens, BadSizesAreNamed) {
  for (const char* bad :
       {"pairs:5", "pairs:5x6x7", "pairs:5x6x7x0", "pairs:0x6x7x8", "pairs:5x6x7x8x9", "tokens:5x6",
        "tokens:5x6x7x", "tokens:0x6x7", "tokens:5xax7"})
    EXPECT_THAT(error_of([&] { make_dataset(bad, Split::kTrain); })->what(),
                HasSubstr(format("\"{}\": expected ROWSx",
                                 std::string(bad).substr(std::string(bad).find(':') + 1))))
        << bad;
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
  const auto complaint = [](const std::string& sizes) {
    const auto error = error_of([&] { make_dataset("synthetic:" + sizes, Split::kTrain); });
    return error ? std::string(error->what()) : "";
  };
  for (const char* sizes :
       {"", "4", "4x5", "0x4x2", "4x-1x2", "4x5x2x1", "4x5x2x", "axbxc", "x4x5x2", "4xx5x2"})
    EXPECT_EQ(complaint(sizes),
              format("--data: \"{}\": expected ROWSxFEATURESxCLASSES, as in synthetic:4096x784x10",
                     sizes));
  for (const char* sizes :
       {"999999999x1x2", "32768x32768x2", "99999999999999999999x1x1", "1x1x536870913"})
    EXPECT_EQ(complaint(sizes),
              format("--data: \"{}\": a size is at most 536870912, and so is the number of values",
                     sizes));
  EXPECT_EQ(complaint("16384x32768x536870912"), "");
}

TEST(Datasets, UnknownNameListsTheKnownOnes) {
  const auto error = error_of([] { make_dataset("imagenet", Split::kTrain); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), testing::AllOf(HasSubstr("imagenet"), HasSubstr("fashion-mnist"),
                                            HasSubstr("synthetic")));
}

TEST(Datasets, OfEveryKindAreNamedWhereNoneIsMeant) {
  ASSERT_GE(data_kinds().size(), 10U);
  const std::string told = error_of([] { make_dataset("npz:", Split::kTrain); })->what();
  for (const DataKind& kind : data_kinds()) {
    EXPECT_THAT(told, HasSubstr(std::string(kind.name))) << kind.form;
    const auto complaint = error_of([&] { make_dataset(std::string(kind.name), Split::kTrain); });
    const bool unknown = complaint && std::string(complaint->what()).find("there is no data set") !=
                                          std::string::npos;
    EXPECT_NE(unknown, kind.takes_nothing) << kind.form;
  }
  EXPECT_THAT(told, testing::Not(HasSubstr("`")));
}

TEST(Datasets, SyntheticTakesItsSizesFromTheModel) {
  EXPECT_EQ(complete_dataset_name("synthetic", make_model("lenet5"), 512), "synthetic:8192x784x10");
  EXPECT_EQ(complete_dataset_name("synthetic", make_model("mlp 20-8-3"), 9000),
            "synthetic:9000x20x3")
      << "a batch";
  EXPECT_EQ(complete_dataset_name("synthetic", make_model("lstm-lm 5-7-4-6"), 512),
            "tokens:8192x5x7");
  EXPECT_EQ(complete_dataset_name("synthetic", make_model("seq2seq 5-3-7-4-6-1"), 512),
            "pairs:8192x5x3x7");
  EXPECT_EQ(complete_dataset_name("synthetic:9x9x9", make_model("lenet5"), 512), "synthetic:9x9x9");
  EXPECT_EQ(complete_dataset_name("fashion-mnist", make_model("lenet5"), 512), "fashion-mnist");
  // As workers find it that were started elsewhere.
  EXPECT_EQ(complete_dataset_name("fashion-mnist:here/there", make_model("lenet5"), 512),
            "fashion-mnist:" + (std::filesystem::current_path() / "here/there").string());
  EXPECT_EQ(complete_dataset_name("fashion-mnist:/there", make_model("lenet5"), 512),
            "fashion-mnist:/there");
}

// An embedding of 20 tokens and 300 scores: what it reads it has rows for.
// Sizes without a path behind them.
TEST(Datasets, WithoutAPathAreRefusedWithTheirForm) {
  for (const auto& given : {std::pair("text:128:", "text:FILE"),
                            {"words:8x100:", "words:FILE"},
                            {"images:3x8x8:", "images:FOLDER"}}) {
    const char* const name = given.first;
    const auto error = error_of([&] { complete_dataset_name(name, make_model("lenet5"), 8); });
    ASSERT_TRUE(error) << name;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_EQ(error->where(), "--data");
    EXPECT_THAT(error->what(), HasSubstr(given.second));
  }
}

TEST(Synthetic, TokensAreThoseThatTheModelPicksFrom) {
  partitioner::Builder b("lm");
  const auto words = b.embedding(b.input("tokens", {ops::kBatch, 5}, ops::DType::kInt64), 20, 4);
  const auto scores = b.matmul(words, b.parameter("w", {4, 300}, {}));
  b.loss(b.node("Transpose", {scores}, {{"perm", std::vector<int64_t>{0, 2, 1}}}));
  const partitioner::Model model = b.build();
  EXPECT_EQ(complete_dataset_name("synthetic", model, 8), "tokens:8192x5x20");
  EXPECT_EQ(complete_dataset_name("words:/t", model, 8), "words:5x20:/t");
  const auto error = error_of([&] { complete_dataset_name("text:/t", model, 8); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(),
              testing::AllOf(HasSubstr("it is bytes, of which there are 256, but lm reads or "
                                       "answers 20"),
                             HasSubstr("--sizes"), HasSubstr("words:/t")));
}

// Features by answers lie nowhere.
TEST(Synthetic, TargetsMayBeAsManyAsFeatures) {
  EXPECT_EQ(make_dataset("synthetic:1365x49152x49152", Split::kTrain)->rows(), 1365);
}

// As many rows as are in 256 MiB.
TEST(Datasets, SyntheticRowsOfLargeImagesAreFewer) {
  const auto resnet = make_model("resnet50");
  const std::string name = complete_dataset_name("synthetic", resnet, 32);
  EXPECT_EQ(name, "synthetic:445x150528x1000");
  EXPECT_EQ(make_dataset(name, Split::kTrain)->rows(), 445);
  EXPECT_EQ(complete_dataset_name("synthetic", resnet, 512), "synthetic:512x150528x1000");
}

TEST(Datasets, TakeFromTheModelWhatTheirFilesAreCutTo) {
  const auto lenet = make_model("lenet5");
  const auto lstm = make_model("lstm-lm 16-32-8-8");
  EXPECT_EQ(complete_dataset_name("images:/p", lenet, 1), "images:1x28x28:/p");
  EXPECT_EQ(complete_dataset_name("images:1x28x28:/p", lenet, 1), "images:1x28x28:/p");
  EXPECT_EQ(complete_dataset_name("images:28x28:here", lenet, 1),
            "images:1x28x28:" + std::filesystem::absolute("28x28:here").string())
      << "a folder may be called so";
  EXPECT_EQ(complete_dataset_name("words:/t", lstm, 1), "words:16x32:/t");
  EXPECT_EQ(complete_dataset_name("text:/t", make_model("lstm-lm 16-256-8-8"), 1), "text:16:/t");
  EXPECT_EQ(complete_dataset_name("words:8x9:t", lstm, 1),
            "words:8x9:" + std::filesystem::absolute("t").string());
  EXPECT_EQ(complete_dataset_name("/d/a.npz", lenet, 1), "npz:/d/a.npz");
  EXPECT_EQ(complete_dataset_name("npy:d", lenet, 1),
            "npy:" + std::filesystem::absolute("d").string());
  EXPECT_THAT(error_of([&] { complete_dataset_name("text:/t", lenet, 1); })->what(),
              HasSubstr("does not answer token by token"));
  EXPECT_THAT(error_of([&] { complete_dataset_name("images:/p", lstm, 1); })->what(),
              HasSubstr("it has pictures, but lstm-lm reads"));
  EXPECT_THAT(error_of([&] { make_dataset("images", Split::kTrain); })->what(),
              testing::AllOf(HasSubstr("images:FOLDER"), HasSubstr("npz:FILE")));
}

TEST(Datasets, RowsThatDoNotFitTheModelAreRefused) {
  const auto model = make_model("mlp 20-8-3");
  const auto wide = make_dataset("synthetic:4x21x3", Split::kTrain);
  const auto error = error_of([&] { schedmp::check_fits(*wide, "synthetic:4x21x3", model); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("21 features"));
  const auto many = make_dataset("synthetic:4x20x4", Split::kTrain);
  EXPECT_TRUE(error_of([&] { schedmp::check_fits(*many, "synthetic:4x20x4", model); }));
}

TEST(Models, SourceTextReadsBack) {
  EXPECT_EQ(make_model("mlp 20-8-3").value(0).spec.shape[1], 20);
  EXPECT_EQ(make_model("lenet5").name(), "lenet5");
  EXPECT_TRUE(error_of([] { make_model("resnet"); }));
  EXPECT_TRUE(error_of([] { make_model("mlp 20-x"); }));
}

}  // namespace
}  // namespace kerf::apps
