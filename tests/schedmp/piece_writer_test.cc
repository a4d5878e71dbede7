// A worker's files of bounded size: what was written is read, whatever their size, and one that
// cannot be written ends them.
#include "schedmp/piece_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/error.h"
#include "runtime/file.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp {
namespace {

namespace fs = std::filesystem;

class PieceWriterTest : public testing::Test {
 protected:
  SavedPieces write(std::string_view bytes, int64_t most) {
    PieceWriter writer(store_, first_, most);
    write_pieces(bytes, writer);
    return writer.finish();
  }
  std::vector<PlacedPart> placed(const SavedPieces& saved) const {
    std::vector<PlacedPart> all;
    for (const SnapshotPart& piece : saved.pieces)
      all.push_back({piece_file(first_, all.size()).string(), piece});
    return all;
  }

  kerf::tests::TemporaryFolder folder_;
  runtime::LocalStore store_;
  const fs::path first_ = folder_ / "worker-3";
};

TEST_F(PieceWriterTest, WhatIsWrittenIsReadWhateverTheirSize) {
  const std::string all = "the state of a worker";
  for (size_t size = 0; size <= all.size(); ++size)
    for (const int64_t most : {int64_t{1}, int64_t{4}, int64_t{7}, int64_t{21}, kUndivided}) {
      const std::string bytes = all.substr(0, size);
      const SavedPieces saved = write(bytes, most);
      EXPECT_EQ(saved.failure, "");
      const auto whole = static_cast<int64_t>(size) / most;
      const int64_t expected = whole + (static_cast<int64_t>(size) % most > 0 ? 1 : 0);
      EXPECT_EQ(std::ssize(saved.pieces), std::max<int64_t>(expected, 1)) << size << ", " << most;
      for (const SnapshotPart& piece : saved.pieces) EXPECT_LE(piece.bytes, most);
      EXPECT_EQ(read_parts(store_, placed(saved)), bytes);
    }
}

TEST_F(PieceWriterTest, EachHasItsNumber) {
  write("abcdefg", 3);
  EXPECT_EQ(runtime::read_file(folder_ / "worker-3"), "abc");
  EXPECT_EQ(runtime::read_file(folder_ / "worker-3.1"), "def");
  EXPECT_EQ(runtime::read_file(folder_ / "worker-3.2"), "g");
}

// The third's place is taken by a folder.
TEST_F(PieceWriterTest, OneThatCannotBeWrittenEndsThem) {
  fs::create_directories(folder_ / "worker-3.2" / "within");
  const SavedPieces saved = write("abcdefghijkl", 3);
  EXPECT_THAT(saved.failure, testing::HasSubstr("worker-3.2"));
  ASSERT_EQ(saved.pieces.size(), 3);
  EXPECT_EQ(saved.pieces.back(), kNoRoom);
  EXPECT_FALSE(fs::exists(folder_ / "worker-3.3"));
}

TEST_F(PieceWriterTest, OneThatIsAnotherOrInAnothersPlaceIsNamed) {
  const SavedPieces saved = write("abcdefgh", 3);
  std::vector<PlacedPart> parts = placed(saved);
  std::swap(parts[0].file, parts[1].file);
  const auto error = kerf::tests::error_of([&] { read_parts(store_, parts); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_EQ(error->where(), (folder_ / "worker-3.1").string());
}

}  // namespace
}  // namespace kerf::schedmp
