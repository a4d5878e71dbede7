// Arrays out of files: what is read is what NumPy saved (files/make_files.py).
#include "apps/data/array_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <functional>

#include "apps/data/datasets.h"
#include "apps/data/stored_bytes.h"
#include "apps/models.h"
#include "runtime/file.h"
#include "tests/apps/rows_read.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

namespace fs = std::filesystem;
using schedmp::Split;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using tests::error_of;
using tests::inputs_of;
using tests::kDataFiles;
using tests::whole_numbers;

TEST(ArrayRows, SplitsByTheNamesOfArrays) {
  const ArrayRows train(arrays_of_archive(kDataFiles / "stored.npz"), Split::kTrain);
  const ArrayRows test(arrays_of_archive(kDataFiles / "stored.npz"), Split::kTest);
  EXPECT_EQ(train.rows(), 30);
  EXPECT_EQ(test.rows(), 10);
  EXPECT_EQ(train.classes(), 5);
  EXPECT_EQ(train.input("anything"), (ops::ValueSpec{ops::DType::kFloat32, {ops::kBatch, 2, 3}}));
  EXPECT_FALSE(train.has_own("anything")) << "it fits a model of one input";
  EXPECT_TRUE(train.has_own("x"));
  // x[i] counts by eighths, y[i] is i * 7 mod 5.
  EXPECT_THAT(inputs_of(train, {29, 0, 1}),
              ElementsAre(21.75, 21.875, 22, 22.125, 22.25, 22.375, 0, 0.125, 0.25, 0.375, 0.5,
                          0.625, 0.75, 0.875, 1, 1.125, 1.25, 1.375));
  EXPECT_THAT(inputs_of(test, {9}), ElementsAre(29.25, 29.375, 29.5, 29.625, 29.75, 29.875));
  EXPECT_THAT(whole_numbers(test, {0, 1, 9}), ElementsAre(0, 2, 3));
  EXPECT_NE(train.fingerprint(), test.fingerprint());
  EXPECT_EQ(train.held_bytes(), 0) << "they stay in the file";
}

TEST(ArrayRows, OfOneArrayTheLastTenthIsForTests) {
  const ArrayRows train(arrays_of_archive(kDataFiles / "deflated.npz"), Split::kTrain);
  const ArrayRows test(arrays_of_archive(kDataFiles / "deflated.npz"), Split::kTest);
  EXPECT_EQ(train.rows(), 36);
  EXPECT_EQ(test.rows(), 4);
  EXPECT_THAT(inputs_of(test, {0}), ElementsAre(27, 27.125, 27.25, 27.375, 27.5, 27.625));
  EXPECT_THAT(whole_numbers(test, {0, 3}), ElementsAre(2, 3));
}

TEST(ArrayRows, AFolderHoldsArraysToo) {
  const tests::TemporaryFolder folder;
  std::vector<uint8_t> pixels{0, 255, 7, 9};
  std::vector<int64_t> labels{1, 0};
  write_npy(folder / "image_train.npy",
            {ops::DType::kUint8, {2, 2}, reinterpret_cast<std::byte*>(pixels.data())});
  write_npy(folder / "label_train.npy",
            {ops::DType::kInt64, {2}, reinterpret_cast<std::byte*>(labels.data())});
  const auto data = make_dataset("npy:" + folder.path().string(), Split::kTrain);
  std::vector<float> row(2);
  data->read_input("image", std::vector<int64_t>{1},
                   {ops::DType::kFloat32, {1, 2}, reinterpret_cast<std::byte*>(row.data())});
  EXPECT_THAT(row, ElementsAre(7, 9));
  EXPECT_EQ(data->classes(), 2);
  const auto error = error_of([&] { make_dataset("npy:" + folder.path().string(), Split::kTest); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("no arrays for tests"), HasSubstr("image_train")));
}

TEST(ArrayRows, WhatDoesNotFitTogetherIsNamed) {
  const tests::TemporaryFolder folder;
  const auto save = [&](const std::string& name, ops::DType dtype, const ops::Shape& shape) {
    std::vector<std::byte> bytes(static_cast<size_t>(shape.elements()) * ops::size_of(dtype),
                                 std::byte{0xff});
    write_npy(folder / name, {dtype, shape, bytes.data()});
  };
  const auto complaint = [&] {
    const auto error = error_of([&] {
      const ArrayRows data(arrays_of_folder(folder.path()), Split::kTrain);
      data.classes();
      data.input("x");
    });
    return error ? std::string(error->what()) : "";
  };
  save("x.npy", ops::DType::kFloat32, {20, 3});
  EXPECT_THAT(complaint(), HasSubstr("it has no labels: an array called label, y"));
  save("y.npy", ops::DType::kFloat32, {20});
  EXPECT_THAT(complaint(),
              HasSubstr("labels are whole numbers where they are classes, these are float32"));
  save("y.npy", ops::DType::kInt64, {20});
  EXPECT_THAT(complaint(), HasSubstr("label -1 of row 0 is no class"));
  save("y.npy", ops::DType::kInt64, {});
  EXPECT_THAT(complaint(), HasSubstr("no axis of rows"));
  save("y.npy", ops::DType::kUint64, {20});
  EXPECT_THAT(complaint(), HasSubstr("is no class"));
  std::vector<int64_t> most(20);
  most[3] = INT64_MAX;
  write_npy(folder / "y.npy",
            {ops::DType::kInt64, {20}, reinterpret_cast<std::byte*>(most.data())});
  EXPECT_THAT(complaint(), HasSubstr("label 9223372036854775807 of row 3 is no class"));
}

// Saves zeros by name, and opens them.
class SavedArrays : public testing::Test {
 protected:
  void save(const std::string& name, const ops::Shape& shape,
            ops::DType dtype = ops::DType::kInt64) {
    const std::vector<std::byte> bytes(static_cast<size_t>(shape.elements()) * ops::size_of(dtype));
    write_npy(folder_ / (name + ".npy"), {dtype, shape, const_cast<std::byte*>(bytes.data())});
  }
  ArrayRows open(Split split = Split::kTrain) const {
    return {arrays_of_folder(folder_.path()), split};
  }
  std::string complaint(const std::function<void(const ArrayRows&)>& act = {}) const {
    const auto error = error_of([&] {
      const ArrayRows data = open();
      if (act) act(data);
    });
    return error ? error->what() : "";
  }
  tests::TemporaryFolder folder_;
};

TEST_F(SavedArrays, WhatHasTestsOfItsOwnIsForTrainingWhole) {
  for (const char* name : {"x", "y"}) save(name, {20});
  for (const char* name : {"x_test", "y_test"}) save(name, {6});
  EXPECT_EQ(open().rows(), 20);
  EXPECT_EQ(open(Split::kTest).rows(), 6);
  for (const char* name : {"x_train", "y_train"}) save(name, {10});
  EXPECT_EQ(open().rows(), 10);
  fs::remove(folder_ / "x_test.npy");
  fs::remove(folder_ / "y_test.npy");
  EXPECT_THAT(error_of([&] { open(Split::kTest); })->what(), HasSubstr("no arrays for tests"));
}

TEST_F(SavedArrays, TooFewRowsAreRefused) {
  for (const int64_t rows : {0, 1}) {
    for (const char* name : {"x", "y"}) save(name, {rows});
    EXPECT_THAT(complaint(), HasSubstr("it has " + plural(rows, "row") + ", which is not enough"));
    EXPECT_TRUE(error_of([&] { open(Split::kTest); })) << rows;
  }
  for (const char* name : {"x", "y"}) save(name, {2});
  EXPECT_EQ(open().rows() + open(Split::kTest).rows(), 2);
}

TEST_F(SavedArrays, AnArrayThatNobodyAsksForDoesNoHarm) {
  for (const char* name : {"x", "y"}) save(name, {20});
  save("mean", {});
  save("rows_of_another", {7});
  runtime::write_file_atomic(folder_ / "names.npy", "these are no numbers");
  EXPECT_EQ(open().rows(), 18);
  const auto asked = [&](const char* input) {
    return complaint([&](const ArrayRows& data) { data.input(input); });
  };
  EXPECT_EQ(asked("image"), "");
  EXPECT_THAT(asked("mean"), HasSubstr("mean.npy: it has no axis of rows"));
  EXPECT_THAT(asked("names"), HasSubstr("no .npy file"));
  EXPECT_THAT(asked("rows_of_another"), AllOf(HasSubstr("it has 7 rows, but"), HasSubstr("y.npy")));
}

TEST_F(SavedArrays, TwoThatCouldBeItAreRefused) {
  for (const char* name : {"x", "y", "target"}) save(name, {20});
  EXPECT_THAT(complaint(), HasSubstr("both y and target could be its labels"));
  fs::remove(folder_ / "y.npy");
  EXPECT_EQ(complaint([](const ArrayRows& data) { data.classes(); }), "");
  for (const char* name : {"label", "y"}) save(name, {20});
  EXPECT_EQ(complaint(), "") << "label is what models call it";
  save("data", {20});
  EXPECT_THAT(complaint([](const ArrayRows& data) { data.input("image"); }),
              HasSubstr("both x and data could be its input image"));
  EXPECT_EQ(complaint([](const ArrayRows& data) { data.input("data"); }), "");
}

TEST_F(SavedArrays, AxesAreThoseOfTheModelOrOne) {
  const auto complaint_of = [&](const ops::Shape& shape) {
    save("image", shape, ops::DType::kFloat32);
    const auto lenet = make_model("lenet5");
    const auto error = error_of([&] {
      schedmp::check_fits(ArrayRows(arrays_of_folder(folder_.path()), Split::kTrain, &lenet),
                          "rows", lenet);
    });
    return error ? std::string(error->what()) : "";
  };
  save("label", {20});
  for (const ops::Shape& shape :
       {ops::Shape{20, 1, 28, 28}, {20, 28, 28, 1}, {20, 28, 28}, {20, 784}})
    EXPECT_EQ(complaint_of(shape), "") << ops::to_string(shape);
  for (const auto& [shape, told] : {std::pair(ops::Shape{20, 28, 14, 2}, "[N, 28, 14, 2]"),
                                    {ops::Shape{20, 14, 56}, "[N, 14, 56]"}})
    EXPECT_THAT(complaint_of(shape),
                AllOf(HasSubstr(format("rows: its rows are {}", told)),
                      HasSubstr("[N, 1, 28, 28]; give the axes in that order")));
}

// seq2seq reads source and target.
TEST_F(SavedArrays, WhatTheModelReadsIsNoLabel) {
  const auto model = make_model("seq2seq 4-3-9-8-16-1");
  const auto complaint_of = [&] {
    const auto error = error_of([&] {
      schedmp::check_fits(ArrayRows(arrays_of_folder(folder_.path()), Split::kTrain, &model),
                          "rows", model);
    });
    return error ? std::string(error->what()) : "";
  };
  save("source", {20, 4});
  save("target", {20, 3});
  EXPECT_THAT(complaint_of(), AllOf(HasSubstr("it has no labels"), HasSubstr("source, target")));
  save("labels", {20, 3});
  EXPECT_EQ(complaint_of(), "");
}

TEST_F(SavedArrays, ThatTheModelDoesNotReadDecideNothing) {
  const auto model = make_model("mlp 6-4-3");
  const auto rows_of = [&](Split split) {
    return ArrayRows(arrays_of_folder(folder_.path()), split, &model).rows();
  };
  save("x", {20, 6}, ops::DType::kFloat32);
  save("y", {20});
  save("another_test", {5});
  save("mean", {1});
  EXPECT_EQ(rows_of(Split::kTrain), 18);
  EXPECT_EQ(rows_of(Split::kTest), 2);
  save("x_val", {7, 6}, ops::DType::kFloat32);
  save("y_val", {7});
  EXPECT_EQ(rows_of(Split::kTrain), 20);
  EXPECT_EQ(rows_of(Split::kTest), 7) << "they are tests where no others are";
  save("x_train", {9, 6}, ops::DType::kFloat32);
  const ArrayRows data(arrays_of_folder(folder_.path()), Split::kTrain, &model);
  EXPECT_THAT(error_of([&] { data.classes(); })->what(),
              AllOf(HasSubstr("it has no labels"), HasSubstr("y: passed over")));
}

TEST_F(SavedArrays, AreOfTheTypeThatTheModelReads) {
  const auto model = make_model("mlp 2-4-3");
  std::vector<uint16_t> deep{1, 60000, 3, 4};
  write_npy(folder_ / "x.npy",
            {ops::DType::kUint16, {2, 2}, reinterpret_cast<std::byte*>(deep.data())});
  save("y", {2});
  const ArrayRows data(arrays_of_folder(folder_.path()), Split::kTrain, &model);
  schedmp::check_fits(data, "rows", model);
  EXPECT_THAT(inputs_of(data, {0}), ElementsAre(1, 60000));
}

TEST_F(SavedArrays, TokensBeyondTheVocabularyAreNamedWithTheirRow) {
  const auto model = make_model("lstm-lm 3-7-4-6");
  for (const int64_t odd : {int64_t{7}, int64_t{-1}}) {
    std::vector<int64_t> tokens(60);
    tokens[3 * 19 + 1] = odd;  // the first row of tests is 18
    write_npy(folder_ / "tokens.npy",
              {ops::DType::kInt64, {20, 3}, reinterpret_cast<std::byte*>(tokens.data())});
    save("label", {20, 3});
    const ArrayRows data(arrays_of_folder(folder_.path()), Split::kTest, &model);
    std::vector<int64_t> row(3);
    const auto error = error_of([&] {
      data.read_input("tokens", std::vector<int64_t>{1},
                      {ops::DType::kInt64, {1, 3}, reinterpret_cast<std::byte*>(row.data())});
    });
    ASSERT_TRUE(error) << odd;
    EXPECT_THAT(
        error->what(),
        AllOf(HasSubstr("tokens.npy"),
              HasSubstr(format("row 19 has the number {}, but the model picks from 7", odd))));
  }
}

// A flipped bit of an array, wherever it is: nothing else in the file says what its numbers were.
TEST(ArrayRows, DamagedNumbersAreRefused) {
  const tests::TemporaryFolder folder;
  for (const std::string name : {"stored.npz", "deflated.npz"}) {
    std::string bytes = runtime::read_file(kDataFiles / name);
    const size_t member = bytes.find('x');  // x_train.npy, x.npy
    const size_t within = bytes.find("PK\3\4", member) - 8;
    bytes[within] = static_cast<char>(bytes[within] ^ 1);
    const fs::path damaged = folder / name;
    runtime::write_file_atomic(damaged, bytes);
    const auto error = error_of([&] {
      const ArrayRows data(arrays_of_archive(damaged), Split::kTrain);
      data.prepare(std::vector<std::string>{"x"});
    });
    ASSERT_TRUE(error) << name;
    EXPECT_THAT(error->what(), AllOf(HasSubstr(name + ": x"), HasSubstr("it is damaged")));
  }
}

TEST(ZipArchive, ACommentMayHoldWhatItsEndBeginsWith) {
  const tests::TemporaryFolder folder;
  std::string bytes = runtime::read_file(kDataFiles / "stored.npz");
  const std::string comment = "PK\5\6" + std::string(18, '\0') + "and more";
  bytes[bytes.size() - 2] = static_cast<char>(comment.size());
  runtime::write_file_atomic(folder / "a.npz", bytes + comment);
  EXPECT_EQ(ArrayRows(arrays_of_archive(folder / "a.npz"), Split::kTrain).rows(), 30);
}

TEST(ZipArchive, AStoredMemberHasOneSize) {
  const tests::TemporaryFolder folder;
  std::string bytes = runtime::read_file(kDataFiles / "stored.npz");
  const size_t entry = bytes.find("PK\1\2");
  ++bytes[entry + 24];  // its size, as the directory has it
  runtime::write_file_atomic(folder / "a.npz", bytes);
  const auto error =
      error_of([&] { const ArrayRows data(arrays_of_archive(folder / "a.npz"), Split::kTrain); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("it is stored as it is, but takes "));
}

TEST(StoredArrays, AreCheckedOnceMoreThanTheirHeadIsRead) {
  constexpr size_t kBytes = 700'000;
  const tests::TemporaryFolder folder;
  std::string text(kBytes, 'a');
  for (size_t i = 0; i < kBytes; ++i) text[i] = static_cast<char>(i % 251);
  const auto sum = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(kBytes - 5)));
  const auto stored = [&](const std::string& contents) {
    runtime::write_file_atomic(folder / "all", contents);
    return StoredBytes(std::make_shared<FileBytes>(folder / "all"), 0, kBytes - 5, "a.npz: x", sum);
  };
  const StoredBytes sound = stored(text);
  EXPECT_EQ(read_text(sound, kBytes - 15, 10), text.substr(kBytes - 15, 10));
  text[kBytes - 6] = 'x';
  const StoredBytes damaged = stored(text);
  EXPECT_EQ(read_text(damaged, 0, 128), text.substr(0, 128)) << "a header costs a header";
  for (int again = 0; again < 2; ++again) {
    const auto error = error_of([&] { read_text(damaged, 70'000, 10); });
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(), AllOf(HasSubstr("a.npz: x"), HasSubstr("checksum")));
  }
}

}  // namespace
}  // namespace kerf::apps
