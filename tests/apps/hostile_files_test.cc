// Files from strangers: whatever is in them, a reader gives what they hold or Error{kUsage} that
// names the file; it allocates in proportion to what they have, and comes to an end.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "apps/data/array_rows.h"
#include "apps/data/idx_folder.h"
#include "apps/data/inflated_bytes.h"
#include "apps/data/text_rows.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "tests/apps/file_readers.h"
#include "tests/apps/gzip.h"
#include "tests/support/allocation_meter.h"
#include "tests/support/mutated.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr int kMutations = 1'000;
#else
constexpr int kMutations = 20'000;
#endif

// A byte of deflate makes at most 1032, which a picture has as four of eight bits, converted once.
constexpr size_t kMostPerByte = 4 * 8 * 1032;
constexpr size_t kMostAlways = size_t{8} << 20;
constexpr size_t kHead = 80;  // of the longest header here

std::string file(const std::string& name) {
  return runtime::read_file(std::filesystem::path(KERF_TEST_FILES) / name);
}

using Reader = std::function<void(const std::string& bytes)>;

void survive(const std::string& sound, const Reader& read) {
  EXPECT_NO_THROW(read(sound));
  std::mt19937_64 random(21);
  int refused = 0;
  for (int i = 0; i < kMutations && !testing::Test::HasFailure(); ++i) {
    const std::string bytes = tests::mutated(sound, random, kHead);
    const size_t before = tests::allocated_bytes();
    try {
      read(bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
      EXPECT_FALSE(error.where().empty()) << error.what();
      EXPECT_LT(error.message().size(), 1000U);
      ++refused;
    }
    EXPECT_LE(tests::allocated_bytes() - before, kMostAlways + kMostPerByte * bytes.size())
        << "mutation " << i;
  }
  EXPECT_GT(refused, kMutations / 20);  // otherwise the mutations miss
}

TEST(HostileFiles, Npy) { survive(file("alone.npy"), tests::read_npy); }
TEST(HostileFiles, NpzOfStoredArrays) { survive(file("stored.npz"), tests::read_npz); }
TEST(HostileFiles, NpzOfDeflatedArrays) { survive(file("deflated.npz"), tests::read_npz); }

TEST(HostileFiles, Png) { survive(file("waves.png"), tests::read_picture); }
TEST(HostileFiles, PngWithAPalette) { survive(file("palette.png"), tests::read_picture); }
TEST(HostileFiles, Jpeg) { survive(file("waves.jpg"), tests::read_picture); }
TEST(HostileFiles, ProgressiveJpeg) { survive(file("progressive.jpg"), tests::read_picture); }

TEST(HostileFiles, Gzip) {
  const tests::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 600; ++i) text += i % 7 == 0 ? "some text" : "aaaaaaaaaa";
  tests::write_gzip(folder / "a.gz", text);
  survive(runtime::read_file(folder / "a.gz"), tests::read_gzip);
}

TEST(HostileFiles, Idx) {
  const std::string labels = tests::idx_header(0x00000801, {4}) + std::string("\0\1\2\3", 4);
  const std::string images = tests::idx_header(0x00000803, {4, 6, 6}) + std::string(4 * 36, 'p');
  survive(images, [&](const std::string& bytes) { tests::read_idx(bytes, labels); });
  survive(labels, [&](const std::string& bytes) { tests::read_idx(images, bytes); });
}

// As Fashion-MNIST comes.
TEST(HostileFiles, GzippedIdx) {
  const tests::TemporaryFolder folder;
  const std::string labels = tests::idx_header(0x00000801, {4}) + std::string("\0\1\2\3", 4);
  tests::write_gzip(folder / "a.gz",
                    tests::idx_header(0x00000803, {4, 28, 28}) + std::string(4 * 784, 'p'));
  survive(runtime::read_file(folder / "a.gz"), [&](const std::string& bytes) {
    const IdxFolder data(open_gzip(tests::bytes_in_memory(bytes)), tests::bytes_in_memory(labels),
                         kFashionMnist);
    std::vector<float> row(784);
    data.read_features(std::vector<int64_t>{3},
                       {ops::DType::kFloat32, {1, 784}, reinterpret_cast<std::byte*>(row.data())});
  });
}

// Labels, and the last row of the input.
void read_rows(const std::string& bytes) {
  for (const auto split : {schedmp::Split::kTrain, schedmp::Split::kTest}) {
    const ArrayRows data(arrays_of_archive(tests::bytes_in_memory(bytes)), split);
    data.classes();
    const auto spec = data.input("x");
    if (!spec) continue;
    const ops::Shape row = spec->shape.with_batch(1);
    std::vector<std::byte> to(static_cast<size_t>(row.elements()) * ops::size_of(spec->dtype));
    data.read_input("x", std::vector<int64_t>{data.rows() - 1}, {spec->dtype, row, to.data()});
  }
}

TEST(HostileFiles, RowsOfStoredArrays) { survive(file("stored.npz"), read_rows); }
TEST(HostileFiles, RowsOfDeflatedArrays) { survive(file("deflated.npz"), read_rows); }

TEST(HostileFiles, Text) {
  const auto read = [](const schedmp::Dataset& data, int64_t length) {
    std::vector<int64_t> row(static_cast<size_t>(length));
    const ops::TensorView to{
        ops::DType::kInt64, {1, length}, reinterpret_cast<std::byte*>(row.data())};
    data.read_labels(std::vector<int64_t>{data.rows() - 1}, to);
    data.read_input("tokens", std::vector<int64_t>{0}, to);
  };
  survive("the cat sat\non the mat", [&](const std::string& bytes) {
    const auto words = std::make_shared<Words>(tests::bytes_in_memory(bytes), 4);
    read(TextRows(words, 3, 4, schedmp::Split::kTrain), 3);
  });
  survive("twenty-five letters or so", [&](const std::string& bytes) {
    read(TextRows(tests::bytes_in_memory(bytes), 12, schedmp::Split::kTest), 12);
  });
}

// The last four bytes of a gzip file say how much there is.
TEST(HostileFiles, WhatAGzipFileClaimsCostsNothing) {
  const tests::TemporaryFolder folder;
  std::mt19937_64 random(3);
  std::string noise(60'000, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  tests::write_gzip(folder / "a.gz", noise);
  std::string bytes = runtime::read_file(folder / "a.gz");
  const uint32_t claim = 60'000'000;
  for (size_t i = 0; i < 4; ++i)
    bytes[bytes.size() - 4 + i] = static_cast<char>(claim >> 8 * i & 0xff);
  const auto contents = open_gzip(tests::bytes_in_memory(bytes));
  const size_t before = tests::allocated_bytes();
  EXPECT_THROW(contents->prepare(), Error);
  EXPECT_LT(tests::allocated_bytes() - before, size_t{4} << 20);
}

}  // namespace
}  // namespace kerf::apps
