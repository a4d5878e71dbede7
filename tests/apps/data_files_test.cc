// Data sets out of files: what is read is what NumPy, Pillow and PyTorch have of the same files
// (files/make_files.py), or what a plain loop makes of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <sstream>

#include "apps/data/array_rows.h"
#include "apps/data/datasets.h"
#include "apps/data/idx_folder.h"
#include "apps/data/image_folder.h"
#include "apps/data/picture.h"
#include "apps/data/stored_bytes.h"
#include "apps/data/text_rows.h"
#include "apps/models.h"
#include "runtime/file.h"
#include "tests/apps/gzip.h"
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

const fs::path kFiles = KERF_TEST_FILES;

std::vector<float> inputs_of(const schedmp::Dataset& data, const std::vector<int64_t>& rows) {
  const int64_t width = data.input("x").value().shape.elements_per_sample();
  std::vector<float> values(rows.size() * static_cast<size_t>(width));
  data.read_input("x", rows,
                  {ops::DType::kFloat32,
                   {std::ssize(rows), width},
                   reinterpret_cast<std::byte*>(values.data())});
  return values;
}

// Of labels or, of text, of inputs.
std::vector<int64_t> whole_numbers(const schedmp::Dataset& data, const std::vector<int64_t>& rows,
                                   bool labels = true) {
  const int64_t width = data.labels().elements_per_sample();
  std::vector<int64_t> values(rows.size() * static_cast<size_t>(width));
  const ops::TensorView to{
      ops::DType::kInt64, {std::ssize(rows), width}, reinterpret_cast<std::byte*>(values.data())};
  labels ? data.read_labels(rows, to) : data.read_input("tokens", rows, to);
  return values;
}

// ---- arrays

TEST(ArrayRows, SplitsByTheNamesOfArrays) {
  const ArrayRows train(arrays_of_archive(kFiles / "stored.npz"), Split::kTrain);
  const ArrayRows test(arrays_of_archive(kFiles / "stored.npz"), Split::kTest);
  EXPECT_EQ(train.rows(), 30);
  EXPECT_EQ(test.rows(), 10);
  EXPECT_EQ(train.classes(), 5);
  EXPECT_EQ(train.input("anything"), (ops::ValueSpec{ops::DType::kFloat32, {ops::kBatch, 2, 3}}));
  EXPECT_FALSE(train.named("anything")) << "it fits a model of one input";
  EXPECT_TRUE(train.named("x"));
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
  const ArrayRows train(arrays_of_archive(kFiles / "deflated.npz"), Split::kTrain);
  const ArrayRows test(arrays_of_archive(kFiles / "deflated.npz"), Split::kTest);
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
    std::string bytes = runtime::read_file(kFiles / name);
    const size_t member = bytes.find("x");  // x_train.npy, x.npy
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
  std::string bytes = runtime::read_file(kFiles / "stored.npz");
  const std::string comment = "PK\5\6" + std::string(18, '\0') + "and more";
  bytes[bytes.size() - 2] = static_cast<char>(comment.size());
  runtime::write_file_atomic(folder / "a.npz", bytes + comment);
  EXPECT_EQ(ArrayRows(arrays_of_archive(folder / "a.npz"), Split::kTrain).rows(), 30);
}

TEST(ZipArchive, AStoredMemberHasOneSize) {
  const tests::TemporaryFolder folder;
  std::string bytes = runtime::read_file(kFiles / "stored.npz");
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

// ---- pictures

TEST(Pictures, AreWhatPyTorchMakesOfThem) {
  std::ifstream expected(kFiles / "expected.txt");
  int compared = 0;
  for (std::string text; std::getline(expected, text); ++compared) {
    std::istringstream line(text);
    std::string name;
    int64_t channels = 0;
    int64_t height = 0;
    int64_t width = 0;
    line >> name >> channels >> height >> width;
    const std::string bytes = runtime::read_file(kFiles / name);
    const Picture picture = decode_picture(std::as_bytes(std::span(bytes)), channels, name);
    std::vector<float> found(static_cast<size_t>(channels * height * width));
    resize_picture(picture, height, width, found.data());
    // Two decoders of JPEG agree within rounding, and grey is theirs to weigh.
    const double allowed = name.ends_with(".jpg") ? (channels == 1 ? 2 : 1) : 1e-3;
    for (const float each : found) {
      float value = -1;
      line >> value;
      ASSERT_NEAR(each, value, allowed) << name << " " << channels;
    }
  }
  EXPECT_EQ(compared, 24);
}

std::string message_of_picture(const std::string& bytes) {
  const auto error =
      error_of([&] { decode_picture(std::as_bytes(std::span(bytes)), 3, "claims"); });
  return error ? error->what() : "";
}

// Numbers of big-endian bytes.
void put_number(std::string& bytes, size_t at, uint32_t value, size_t count) {
  for (size_t i = 0; i < count; ++i)
    bytes[at + i] = static_cast<char>(value >> 8 * (count - 1 - i) & 0xff);
}

// A header's claim costs nothing, however sound the header is.
TEST(Pictures, ThatClaimMorePixelsThanTheyCanHoldAreRefused) {
  constexpr size_t kHeader = 12;  // type and contents of IHDR, behind the signature and its length
  constexpr std::array<std::array<uint32_t, 2>, 3> kClaims{
      {{900'000, 900'000}, {8'200, 8'200}, {8'000, 8'000}}};
  for (const auto& [width, height] : kClaims) {
    std::string png = runtime::read_file(kFiles / "waves.png");
    put_number(png, kHeader + 4, width, 4);
    put_number(png, kHeader + 8, height, 4);
    const auto sum =
        crc32(0, reinterpret_cast<const Bytef*>(png.data() + kHeader), 17);  // behind it
    put_number(png, kHeader + 17, static_cast<uint32_t>(sum), 4);
    EXPECT_THAT(message_of_picture(png),
                HasSubstr(format("its header claims {}x{} pixels, in a file of {} bytes", width,
                                 height, png.size())));
  }
  for (const auto& [name, marker] :
       {std::pair("waves.jpg", "\xff\xc0"), {"progressive.jpg", "\xff\xc2"}}) {
    std::string jpeg = runtime::read_file(kFiles / name);
    const size_t frame = jpeg.find(marker);
    ASSERT_NE(frame, std::string::npos);
    put_number(jpeg, frame + 5, 50'000, 2);
    put_number(jpeg, frame + 7, 60'000, 2);
    EXPECT_THAT(message_of_picture(jpeg), HasSubstr("its header claims 60000x50000 pixels"));
  }
}

class PictureFolder : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& picture) {
    fs::create_directories((folder_ / path).parent_path());
    fs::copy_file(kFiles / picture, folder_ / path);
  }
  std::string name(const std::string& sizes) const { return sizes + ":" + folder_.path().string(); }
  std::string complaint(Split split = Split::kTrain, const std::string& sizes = "3x4x4") const {
    const auto error = error_of([&] { inputs_of(ImageFolder(name(sizes), split), {0}); });
    return error ? error->what() : "";
  }
  tests::TemporaryFolder folder_;
};

TEST_F(PictureFolder, ClassesAreFolders) {
  put("train/dog/b.PNG", "waves.png");
  put("train/dog/a.jpeg", "waves.jpg");
  put("train/cat/c.png", "small.png");
  put("val/dog/d.png", "grey.png");
  put("train/dog/notes.txt", "expected.txt");
  const ImageFolder train(name("3x3x2"), Split::kTrain);
  const ImageFolder test(name("3x3x2"), Split::kTest);
  EXPECT_EQ(train.rows(), 3);
  EXPECT_EQ(test.rows(), 1);
  EXPECT_EQ(train.classes(), 2);
  EXPECT_EQ(test.classes(), 2);
  EXPECT_THAT(whole_numbers(train, {0, 1, 2}), ElementsAre(0, 1, 1));
  EXPECT_THAT(whole_numbers(test, {0}), ElementsAre(1));
  EXPECT_NE(train.fingerprint(), test.fingerprint());
  // Of its own size: as it is, normalised. The first pixel of waves() is 127, 247, 0.
  const std::vector<float> row = inputs_of(train, {0});
  ASSERT_EQ(row.size(), 18U);
  EXPECT_FLOAT_EQ(row[0], (127 / 255.0F - 0.485F) / 0.229F);
  EXPECT_FLOAT_EQ(row[6], (247 / 255.0F - 0.456F) / 0.224F);
  EXPECT_FLOAT_EQ(row[12], (0 / 255.0F - 0.406F) / 0.225F);
  const ImageFolder grey(name("1x9x9"), Split::kTest);
  EXPECT_FLOAT_EQ(inputs_of(grey, {0})[0], (127 / 255.0F - 0.5F) / 0.5F);
}

TEST_F(PictureFolder, EveryTenthIsForTestsWhereNobodySaysWhich) {
  for (int i = 10; i < 31; ++i) put(format("all/{}.png", i), "small.png");
  put("few/one.png", "small.png");
  EXPECT_EQ(ImageFolder(name("3x2x2"), Split::kTrain).rows(), 20);
  EXPECT_EQ(ImageFolder(name("3x2x2"), Split::kTest).rows(), 2);
}

TEST_F(PictureFolder, WhatIsHiddenIsPassedOver) {
  put("train/dog/a.png", "waves.png");
  put("train/dog/._a.png", "expected.txt");
  put("train/.ipynb_checkpoints/a.png", "waves.png");
  const ImageFolder train(name("3x3x2"), Split::kTrain);
  EXPECT_EQ(train.rows(), 1);
  EXPECT_EQ(train.classes(), 1);
  fs::create_directories(folder_ / "train/dog/b.png");
  EXPECT_THAT(complaint(), AllOf(HasSubstr("dog/b.png"), HasSubstr("is no file")));
}

TEST_F(PictureFolder, TestsAloneHaveClasses) {
  put("test/dog/a.png", "waves.png");
  put("test/cat/b.png", "waves.png");
  const ImageFolder test(name("3x3x2"), Split::kTest);
  EXPECT_THAT(whole_numbers(test, {0, 1}), ElementsAre(0, 1));
  EXPECT_THAT(complaint(), HasSubstr("it has no folder train"));
}

// Those that weights were trained by, however many of them are here.
TEST_F(PictureFolder, ClassesAreThoseOfTheWeights) {
  put("train/dog/a.png", "waves.png");
  const schedmp::DataRequest request{
      {}, nullptr, schedmp::Numbering{"classes", {"dog", "ant", "cat"}}};
  EXPECT_EQ(ImageFolder(name("3x3x2"), Split::kTrain, request).classes(), 3);
  put("train/cat/a.png", "waves.png");
  EXPECT_THAT(whole_numbers(ImageFolder(name("3x3x2"), Split::kTrain, request), {0, 1}),
              ElementsAre(2, 0));
  put("train/zebra/a.png", "waves.png");
  const auto error = error_of([&] { ImageFolder(name("3x3x2"), Split::kTrain, request); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("zebra"), HasSubstr("trained for: dog, ant, cat")));
}

TEST_F(PictureFolder, WhatIsWrongIsNamed) {
  EXPECT_THAT(complaint(), HasSubstr("no pictures for training"));
  put("train/dog/a.png", "waves.png");
  EXPECT_EQ(complaint(), "") << "nobody asks for tests";
  EXPECT_THAT(complaint(Split::kTest), HasSubstr("neither test nor val; --no-test"));
  put("test/cat/a.png", "waves.png");
  EXPECT_THAT(complaint(Split::kTest), HasSubstr("no class of that name"));
  EXPECT_EQ(complaint(), "");
  EXPECT_THAT(complaint(Split::kTrain, "2x4x4"), HasSubstr("1 or 3 channels"));
  runtime::write_file_atomic(folder_ / "train/dog/a.png", "no picture");
  EXPECT_THAT(complaint(), AllOf(HasSubstr("dog/a.png"), HasSubstr("neither a PNG nor a JPEG")));
  runtime::write_file_atomic(folder_ / "train/dog/a.png",
                             runtime::read_file(kFiles / "waves.jpg").substr(0, 500));
  EXPECT_THAT(complaint(), AllOf(HasSubstr("dog/a.png"), HasSubstr("it is damaged")));
}

// ---- text

class Text : public testing::Test {
 protected:
  std::string name(const std::string& sizes, const std::string& text) {
    runtime::write_file_atomic(folder_ / "text", text);
    return sizes + ":" + (folder_ / "text").string();
  }
  tests::TemporaryFolder folder_;
};

TEST_F(Text, OfBytesIsFollowedByBytes) {
  std::string text;
  for (int i = 0; i < 83; ++i) text += static_cast<char>(200 + i);
  const std::string of = name("4x256", text);
  const auto opened = open_text(TokensOf::kBytes, of, Split::kTrain);
  const TextRows& train = *opened;
  const auto tests = open_text(TokensOf::kBytes, of, Split::kTest);
  const TextRows& test = *tests;
  EXPECT_EQ(train.rows(), 18);
  EXPECT_EQ(test.rows(), 2);
  EXPECT_EQ(train.classes(), 256);
  EXPECT_THAT(whole_numbers(train, {13, 0}, false),
              ElementsAre(252, 253, 254, 255, 200, 201, 202, 203));
  EXPECT_THAT(whole_numbers(train, {13}), ElementsAre(253, 254, 255, 0));
  EXPECT_THAT(whole_numbers(test, {1}), ElementsAre((200 + 77) % 256, 22, 23, 24));
}

// the 4 times, the line's end and cat 3 times, sat twice; the others once.
TEST_F(Text, OfWordsIsNumberedByHowCommonTheyAre) {
  const std::string of = name("2x5", "the cat\tsat  the cat\nthe dog sat\nthe cat a\n");
  OpenWords words;
  const auto opened = open_text(TokensOf::kWords, of, Split::kTrain, {}, &words);
  const TextRows& train = *opened;
  const auto tests = open_text(TokensOf::kWords, of, Split::kTest, {}, &words);
  const TextRows& test = *tests;
  EXPECT_EQ(train.rows(), 5);
  EXPECT_EQ(train.held_bytes(), 0);
  EXPECT_THAT(whole_numbers(train, {0, 1, 2, 3, 4}, false),
              ElementsAre(1, 3, 4, 1, 3, 2, 1, 0, 4, 2));
  EXPECT_THAT(whole_numbers(train, {4}), ElementsAre(2, 1));
  EXPECT_THAT(whole_numbers(test, {0}, false), ElementsAre(1, 3));
  EXPECT_THAT(whole_numbers(test, {0}), ElementsAre(3, 0));
  EXPECT_EQ(train.held_bytes(), 14 * 4);
  EXPECT_EQ(test.held_bytes(), 0) << "they are the same words";
}

TEST_F(Text, OfWordsIsGoneThroughOnceForBothSplits) {
  const std::string of = name("2x5", "the cat sat the cat the dog sat the cat a b c d\n");
  OpenWords words;
  int64_t reads = 0;
  const schedmp::DataRequest request{[&] { ++reads; }};
  const auto open = [&](Split split) {
    return open_text(TokensOf::kWords, of, split, request, &words);
  };
  const auto train = open(Split::kTrain);
  EXPECT_EQ(reads, 1) << "it said that it was at work";
  const auto test = open(Split::kTest);
  EXPECT_EQ(reads, 1);
  test->prepare({});
  EXPECT_EQ(reads, 3) << "counted, and numbered";
  whole_numbers(*train, {0}, false);
  whole_numbers(*test, {0});
  EXPECT_EQ(reads, 3);
  EXPECT_EQ(train->held_bytes() + test->held_bytes(), 15 * 4);
}

TEST_F(Text, OfWordsIsNumberedAsTheWeightsWere) {
  const std::string of = name("2x5", "the cat sat\nthe \xff cat sat on\n");
  const auto plain = open_text(TokensOf::kWords, of, Split::kTrain);
  const schedmp::Numbering mine = plain->numbering();
  EXPECT_EQ(mine.what, "words");
  EXPECT_THAT(mine.names, ElementsAre("\n", "cat", "sat", "the"));
  const schedmp::Numbering odd{"words", {"sat", "\xff", "the", "\n"}};
  EXPECT_EQ(schedmp::read_numbering(schedmp::write_numbering(odd), "here"), odd);
  const auto given = open_text(TokensOf::kWords, of, Split::kTrain, {{}, nullptr, odd});
  EXPECT_EQ(given->numbering(), odd);
  EXPECT_NE(given->fingerprint(), plain->fingerprint());
  EXPECT_THAT(whole_numbers(*given, {0, 1, 2}, false), ElementsAre(3, 0, 1, 4, 3, 2));
  const schedmp::Numbering many{"words", {"a", "b", "c", "d", "e"}};
  EXPECT_THAT(error_of([&] {
                open_text(TokensOf::kWords, of, Split::kTrain, {{}, nullptr, many});
              })->what(),
              HasSubstr("the weights were trained by 5 words, but the model has numbers for 4"));
}

TEST_F(Text, WhatIsTooShortIsNamed) {
  const auto complaint = [&](const std::string& of) {
    const auto error = error_of([&] { open_text(TokensOf::kBytes, of, Split::kTrain); });
    return error ? std::string(error->what()) : "";
  };
  EXPECT_THAT(complaint(name("4x256", "12345678")), HasSubstr("it has 8 tokens"));
  EXPECT_THAT(complaint(name("4x256", "")), HasSubstr("it has 0 tokens"));
  EXPECT_EQ(complaint(name("4x256", "123456789")), "");
  EXPECT_THAT(complaint("4x256:/nowhere"), HasSubstr("/nowhere"));
  EXPECT_THAT(complaint("4x0:/nowhere"), HasSubstr("\"4x0\": expected LENGTHxVOCABULARY:FILE"));
}

// ---- IDX

TEST(IdxFolder, ReadsPlainAndGzippedFilesAlike) {
  const tests::TemporaryFolder folder;
  tests::write_fashion_mnist(folder.path(), 12, 6);
  const IdxFolder zipped(folder.path(), Split::kTrain);
  EXPECT_EQ(zipped.rows(), 12);
  EXPECT_EQ(zipped.features(), 36);
  const std::vector<float> rows = inputs_of(zipped, {3, 0});
  std::string pixels = tests::idx_header(0x00000803, {12, 6, 6});
  for (int row = 0; row < 12; ++row)
    for (int i = 0; i < 36; ++i)
      pixels += static_cast<char>(
          std::lround((inputs_of(zipped, {row})[static_cast<size_t>(i)] * 0.5F + 0.5F) * 255));
  EXPECT_EQ(static_cast<uint8_t>(pixels[16 + 1]), 1) << "pixels count up";
  runtime::write_file_atomic(folder / "train-images-idx3-ubyte", pixels);
  const IdxFolder plain(folder.path(), Split::kTrain);
  EXPECT_EQ(inputs_of(plain, {3, 0}), rows);
  EXPECT_EQ(plain.held_bytes(), 12);
  EXPECT_TRUE(plain.loads_ahead()) << "its rows are read from the file";
  EXPECT_FALSE(zipped.loads_ahead());
  EXPECT_THAT(error_of([&] { IdxFolder("/nowhere", Split::kTrain); })->what(),
              HasSubstr("/nowhere"));
}

TEST(IdxFolder, GzipFilesOfSeveralMembersAreToldOf) {
  const tests::TemporaryFolder folder;
  tests::write_fashion_mnist(folder.path(), 12, 6);
  const fs::path file = folder / "train-labels-idx1-ubyte.gz";
  const std::string first = runtime::read_file(file);
  tests::write_gzip(file, "and more");
  runtime::write_file_atomic(file, first + runtime::read_file(file));
  const auto error = error_of([&] { IdxFolder(folder.path(), Split::kTrain); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("or gunzip it, if it has several members"));
}

// ---- names

TEST(NamesOfData, SayWhatOfTheModelTheyNeed) {
  const auto lenet = make_model("lenet5");
  const auto lstm = make_model("lstm-lm 16-32-8-8");
  EXPECT_EQ(complete_dataset_name("images:/p", lenet, 1), "images:1x28x28:/p");
  EXPECT_EQ(complete_dataset_name("images:1x28x28:/p", lenet, 1), "images:1x28x28:/p");
  EXPECT_EQ(complete_dataset_name("words:/t", lstm, 1), "words:16x32:/t");
  EXPECT_EQ(complete_dataset_name("words:8x9:t", lstm, 1),
            "words:8x9:" + fs::absolute("t").string());
  EXPECT_EQ(complete_dataset_name("/d/a.npz", lenet, 1), "npz:/d/a.npz");
  EXPECT_EQ(complete_dataset_name("npy:d", lenet, 1), "npy:" + fs::absolute("d").string());
  EXPECT_THAT(error_of([&] { complete_dataset_name("text:/t", lenet, 1); })->what(),
              HasSubstr("does not answer token by token"));
  EXPECT_THAT(error_of([&] { complete_dataset_name("images:/p", lstm, 1); })->what(),
              HasSubstr("it has pictures, but lstm-lm reads"));
  EXPECT_THAT(error_of([&] { make_dataset("images", Split::kTrain); })->what(),
              AllOf(HasSubstr("images:FOLDER"), HasSubstr("npz:FILE")));
}

}  // namespace
}  // namespace kerf::apps
