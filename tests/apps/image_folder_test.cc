// Pictures out of files: what is read is what Pillow and PyTorch have of them
// (files/make_files.py).
#include "apps/data/image_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <fstream>
#include <sstream>

#include "apps/data/picture.h"
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

TEST(Pictures, AreWhatPyTorchMakesOfThem) {
  std::ifstream expected(kDataFiles / "expected.txt");
  int compared = 0;
  for (std::string text; std::getline(expected, text); ++compared) {
    std::istringstream line(text);
    std::string name;
    int64_t channels = 0;
    int64_t height = 0;
    int64_t width = 0;
    line >> name >> channels >> height >> width;
    const std::string bytes = runtime::read_file(kDataFiles / name);
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
    std::string png = runtime::read_file(kDataFiles / "waves.png");
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
    std::string jpeg = runtime::read_file(kDataFiles / name);
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
    fs::copy_file(kDataFiles / picture, folder_ / path);
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

TEST_F(PictureFolder, TheListOfFilesIsSmallAndCounted) {
  for (int i = 0; i < 64; ++i) put(format("train/dog/{}.png", i), "small.png");
  const ImageFolder train(name("3x3x2"), Split::kTrain);
  EXPECT_GE(train.held_bytes(), 64 * 32);
  EXPECT_LE(train.held_bytes(), 64 * 100) << "of a long path each, it would be 450";
  EXPECT_EQ(train.fingerprint().substr(0, 18), "images 3x3x2 64 1 ");
}

TEST_F(PictureFolder, WhatMayNotBeReadIsNamed) {
  put("train/dog/a.png", "small.png");
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  fs::permissions(folder_ / "train/dog", fs::perms::none);
  EXPECT_THAT(complaint(), HasSubstr("dog: it cannot be read"));
  fs::permissions(folder_ / "train/dog", fs::perms::owner_all);
}

TEST_F(PictureFolder, ALinkToNothingIsNoPicture) {
  put("train/dog/a.png", "small.png");
  fs::create_symlink("nowhere", folder_ / "train/dog/b.png");
  fs::create_symlink("round", folder_ / "train/round");  // to itself
  EXPECT_THAT(complaint(), HasSubstr("b.png: it is called a picture and is no file"));
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
                             runtime::read_file(kDataFiles / "waves.jpg").substr(0, 500));
  EXPECT_THAT(complaint(), AllOf(HasSubstr("dog/a.png"), HasSubstr("it is damaged")));
}

}  // namespace
}  // namespace kerf::apps
