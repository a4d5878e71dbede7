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

}  // namespace
}  // namespace kerf::apps
