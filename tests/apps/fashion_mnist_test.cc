// Fashion-MNIST as IDX files, and what becomes of them when they are damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "apps/data/datasets.h"
#include "apps/data/idx_folder.h"
#include "runtime/file.h"
#include "tests/apps/gzip.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

using schedmp::Split;
using testing::AllOf;
using testing::HasSubstr;
using tests::error_of;
using tests::idx_header;
using tests::write_gzip;

constexpr uint32_t kImages = 0x00000803;
constexpr uint32_t kLabels = 0x00000801;

// A sound folder of 20 images; each test spoils one file.
class FashionMnistFiles : public testing::Test {
 protected:
  FashionMnistFiles() { tests::write_fashion_mnist(folder_.path(), 20); }

  std::filesystem::path images() const { return folder_ / "train-images-idx3-ubyte.gz"; }
  std::filesystem::path labels() const { return folder_ / "train-labels-idx1-ubyte.gz"; }

  IdxFolder open(Split split = Split::kTrain) const {
    return {folder_.path(), split, kFashionMnist};
  }
  std::vector<float> read(const IdxFolder& data, std::vector<int64_t> rows) const {
    std::vector<float> values(rows.size() * 784);
    data.read_features(
        rows, {ops::DType::kFloat32, ops::Shape({static_cast<int64_t>(rows.size()), 1, 28, 28}),
               reinterpret_cast<std::byte*>(values.data())});
    return values;
  }

  // One line that names the file and what is wrong, from opening it or from the first read.
  void expect_refused(const std::filesystem::path& file, const std::string& why) const {
    const auto error = error_of([&] { read(open(), {0}); });
    ASSERT_TRUE(error) << "accepted, although: " << why;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_THAT(error->what(), AllOf(HasSubstr(file.string()), HasSubstr(why)));
    EXPECT_EQ(std::string(error->what()).find('\n'), std::string::npos);
  }

  tests::TemporaryFolder folder_;
};

TEST_F(FashionMnistFiles, PixelsAreNormalisedAndRowsComeInTheOrderAsked) {
  const IdxFolder data = open();
  EXPECT_EQ(data.rows(), 20);
  EXPECT_EQ(data.features(), 784);
  const std::vector<float> values = read(data, {3, 0});
  EXPECT_FLOAT_EQ(values[784], (0.0F / 255 - 0.2860F) / 0.3530F);
  EXPECT_FLOAT_EQ(values[784 + 200], (200.0F / 255 - 0.2860F) / 0.3530F);
  EXPECT_FLOAT_EQ(values[0], (static_cast<float>(3 * 784 % 251) / 255 - 0.2860F) / 0.3530F);
  std::vector<int64_t> found(2);
  const std::vector<int64_t> rows = {13, 5};
  data.read_labels(rows, {ops::DType::kInt64, {2}, reinterpret_cast<std::byte*>(found.data())});
  EXPECT_THAT(found, testing::ElementsAre(3, 5));
}

TEST_F(FashionMnistFiles, FingerprintFollowsTheContents) {
  const std::string before = open().fingerprint();
  EXPECT_EQ(open(Split::kTest).fingerprint(), before);
  tests::write_fashion_mnist(folder_.path(), 21);
  EXPECT_NE(open().fingerprint(), before);
}

TEST_F(FashionMnistFiles, MissingFolderSaysHowToGetIt) {
  const auto error = error_of(
      [&] { make_dataset("fashion-mnist:" + (folder_ / "nowhere").string(), Split::kTrain); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("apt-get install dataset-fashion-mnist"));
}

TEST_F(FashionMnistFiles, MissingFile) {
  std::filesystem::remove(images());
  expect_refused(images(), "");
}

TEST_F(FashionMnistFiles, NoGzipFile) {
  std::ofstream(images(), std::ios::trunc) << "these are twenty-seven bytes";
  expect_refused(images(), "no gzip file");
}

TEST_F(FashionMnistFiles, TruncatedAnywhere) {
  for (const auto& file : {images(), labels()}) {
    const std::string whole = runtime::read_file(file);
    for (const size_t keep :
         {size_t{0}, size_t{1}, size_t{9}, size_t{19}, whole.size() / 2, whole.size() - 1}) {
      std::ofstream(file, std::ios::trunc | std::ios::binary) << whole.substr(0, keep);
      expect_refused(file, "it is truncated");
    }
    std::ofstream(file, std::ios::trunc | std::ios::binary) << whole;
  }
}

TEST_F(FashionMnistFiles, GarbageAfterTheEnd) {
  for (const auto& file : {images(), labels()}) {
    std::ofstream(file, std::ios::app | std::ios::binary) << "garbage";
    expect_refused(file, "damaged");
    expect_refused(file, "copy it anew");
    tests::write_fashion_mnist(folder_.path(), 20);
  }
}

TEST_F(FashionMnistFiles, DamagedInTheMiddle) {
  std::string whole = runtime::read_file(images());
  whole[whole.size() / 2] = static_cast<char>(whole[whole.size() / 2] ^ 0x40);
  std::ofstream(images(), std::ios::trunc | std::ios::binary) << whole;
  expect_refused(images(), "damaged");
}

TEST_F(FashionMnistFiles, WrongMagicNumber) {
  write_gzip(images(), idx_header(0x00000d03, {20, 28, 28}) + std::string(20 * 784, '\0'));
  expect_refused(images(),
                 "wrong magic number: expected 00000803 (IDX, unsigned bytes, 3 axes), found "
                 "00000d03");
}

TEST_F(FashionMnistFiles, FewerElementsThanAnnounced) {
  write_gzip(images(), idx_header(kImages, {21, 28, 28}) + std::string(20 * 784, '\0'));
  expect_refused(images(), "damaged: its header announces 16480 bytes, found 15696");
}

TEST_F(FashionMnistFiles, BytesAfterTheEnd) {
  write_gzip(images(), idx_header(kImages, {20, 28, 28}) + std::string(20 * 784 + 3, '\0'));
  expect_refused(images(), "damaged: its header announces 15696 bytes, found 15699");
}

TEST_F(FashionMnistFiles, AbsurdSizes) {
  write_gzip(images(), idx_header(kImages, {0xffffffff, 0xffffffff, 0xffffffff}));
  expect_refused(images(), "more than");
  write_gzip(images(), idx_header(kImages, {0, 28, 28}));
  expect_refused(images(), "axis 0 is empty");
  write_gzip(images(), idx_header(kImages, {20, 14, 56}) + std::string(20 * 784, '\0'));
  expect_refused(images(), "expected images of 28x28");
}

TEST_F(FashionMnistFiles, OtherNumberOfLabels) {
  write_gzip(labels(), idx_header(kLabels, {19}) + std::string(19, '\1'));
  expect_refused(labels(), "expected 20 labels");
}

TEST_F(FashionMnistFiles, LabelOutOfRange) {
  write_gzip(labels(), idx_header(kLabels, {20}) + std::string(19, '\1') + '\x0a');
  expect_refused(labels(), "label 19 is 10; expected 0 to 9");
}

}  // namespace
}  // namespace kerf::apps
