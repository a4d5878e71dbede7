#include "runtime/file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::runtime {
namespace {

using testing::HasSubstr;
using tests::error_of;

size_t files_in(const std::filesystem::path& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

class File : public testing::Test {
 protected:
  tests::TemporaryFolder folder_;
};

TEST_F(File, ReadsBackWhatWasWritten) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, size_t{3'000'001}}) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 >> 3);
    write_file_atomic(folder_ / "data", bytes);
    EXPECT_EQ(read_file(folder_ / "data"), bytes);
  }
  EXPECT_EQ(files_in(folder_.path()), 1u);
}

TEST_F(File, ThatIsAbsentOrNoFileIsRefusedByName) {
  const auto absent = error_of([&] { read_file(folder_ / "nothing"); });
  ASSERT_TRUE(absent);
  EXPECT_EQ(absent->code(), ErrorCode::kUsage);
  EXPECT_THAT(absent->what(), HasSubstr("nothing: cannot be opened: No such file"));

  EXPECT_THAT(error_of([&] { read_file(folder_.path()); })->what(), HasSubstr("not a regular"));
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { read_file(folder_ / "pipe"); })->what(), HasSubstr("not a regular"));
}

TEST_F(File, LargerThanTheLimitIsRefusedBeforeItIsRead) {
  write_file_atomic(folder_ / "data", "12345");
  EXPECT_EQ(read_file(folder_ / "data", 5), "12345");
  EXPECT_THAT(error_of([&] { read_file(folder_ / "data", 4); })->what(),
              HasSubstr("has 5 bytes, more than the 4"));
}

TEST_F(File, CannotBeWrittenWhereThereIsNoFolder) {
  const auto error = error_of([&] { write_file_atomic(folder_ / "no/where", "x"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->where(), HasSubstr("no/where"));
}

TEST_F(File, CannotReplaceAFolderAndLeavesNothingBeside) {
  std::filesystem::create_directories(folder_ / "taken/inside");
  EXPECT_TRUE(error_of([&] { write_file_atomic(folder_ / "taken", "x"); }));
  EXPECT_EQ(files_in(folder_.path()), 1u);
}

TEST_F(File, ThatIsNotCommittedNeverWas) {
  write_file_atomic(folder_ / "data", "old");
  {
    AtomicFile file(folder_ / "data");
    file.write("new");
  }
  EXPECT_EQ(read_file(folder_ / "data"), "old");
  EXPECT_EQ(files_in(folder_.path()), 1u);
}

TEST_F(File, IsSeenOldOrNewButNeverInPart) {
  const std::string old_bytes(100'000, 'o');
  const std::string new_bytes(50'000, 'n');
  write_file_atomic(folder_ / "data", old_bytes);
  std::atomic<bool> done = false;
  std::jthread writer([&] {
    for (int i = 0; i < 50; ++i)
      write_file_atomic(folder_ / "data", i % 2 == 0 ? new_bytes : old_bytes);
    done = true;
  });
  while (!done) {
    const std::string seen = read_file(folder_ / "data");
    ASSERT_TRUE(seen == old_bytes || seen == new_bytes) << seen.size() << " bytes";
  }
}

}  // namespace
}  // namespace kerf::runtime
