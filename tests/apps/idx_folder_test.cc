#include "apps/data/idx_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/file.h"
#include "tests/apps/gzip.h"
#include "tests/apps/rows_read.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

namespace fs = std::filesystem;
using schedmp::Split;
using testing::HasSubstr;
using tests::error_of;
using tests::inputs_of;

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

// As cat, pigz and bgzip write them.
TEST(IdxFolder, GzipFilesMayHaveSeveralMembers) {
  const tests::TemporaryFolder folder;
  tests::write_fashion_mnist(folder.path(), 12, 6);
  const fs::path images = folder / "train-images-idx3-ubyte.gz";
  const IdxFolder one(folder.path(), Split::kTrain);
  const std::vector<float> expected = inputs_of(one, {0, 5, 11});
  std::string pixels = tests::idx_header(0x00000803, {12, 6, 6});
  for (int i = 0; i < 12 * 36; ++i) pixels += static_cast<char>(i % 251);
  std::string members;
  for (const auto& [begin, end] : {std::pair(0, 7), {7, 7}, {7, 300}, {300, 448}}) {
    tests::write_gzip(images, pixels.substr(begin, end - begin));
    members += runtime::read_file(images);
  }
  runtime::write_file_atomic(images, members);
  const IdxFolder several(folder.path(), Split::kTrain);
  EXPECT_EQ(inputs_of(several, {0, 5, 11}), expected);
  EXPECT_EQ(several.held_bytes(), 448 + 12);
  const auto complaint = [&](const std::string& bytes) {
    runtime::write_file_atomic(images, bytes);
    const auto error = error_of([&] { inputs_of(IdxFolder(folder.path(), Split::kTrain), {0}); });
    return error ? std::string(error->what()) : "";
  };
  EXPECT_EQ(complaint(members), "");
  EXPECT_THAT(complaint(members + members), HasSubstr("its header announces 448 bytes, found 896"));
  EXPECT_THAT(complaint(members.substr(0, members.size() - 30)), HasSubstr("it is truncated"));
  EXPECT_THAT(complaint(members + "no member"), HasSubstr("train-images-idx3-ubyte.gz"));
  members[members.size() / 2] = static_cast<char>(members[members.size() / 2] ^ 1);
  EXPECT_THAT(complaint(members), HasSubstr("it is damaged"));
}

}  // namespace
}  // namespace kerf::apps
