#include "runtime/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
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

TEST_F(File, ThatIsALinkIsReplacedWhereTheLinkLeads) {
  namespace fs = std::filesystem;
  fs::create_directory(folder_ / "real");
  write_file_atomic(folder_ / "real/data", "old");
  fs::create_symlink("real/data", folder_ / "relative");
  fs::create_symlink(folder_ / "relative", folder_ / "link");
  write_file_atomic(folder_ / "link", "new");
  EXPECT_EQ(read_file(folder_ / "real/data"), "new");

  fs::create_symlink("real/not yet", folder_ / "dangling");
  write_file_atomic(folder_ / "dangling", "made");
  EXPECT_EQ(read_file(folder_ / "real/not yet"), "made");
  for (const char* link : {"relative", "link", "dangling"})
    EXPECT_TRUE(fs::is_symlink(folder_ / link));

  fs::create_symlink("circle", folder_ / "circle");
  EXPECT_TRUE(error_of([&] { write_file_atomic(folder_ / "circle", "x"); }));
  EXPECT_TRUE(fs::is_symlink(folder_ / "circle"));
  EXPECT_EQ(files_in(folder_ / "real"), 2u);
}

TEST_F(File, KeepsTheModeOfTheOneItReplaces) {
  for (const mode_t mode : {mode_t{0600}, mode_t{0666}, mode_t{0755}}) {
    write_file_atomic(folder_ / "data", "old");
    ASSERT_EQ(::chmod((folder_ / "data").c_str(), mode), 0);
    write_file_atomic(folder_ / "data", "new");
    struct stat status {};
    ASSERT_EQ(::stat((folder_ / "data").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, mode);
  }
}

TEST_F(File, ThatIsAPipeIsWrittenInto) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", folder_ / "link");
  const int reader = ::open((folder_ / "pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  write_file_atomic(folder_ / "link", "through");
  // As a shell names what it made for >(command).
  const int writer = ::open((folder_ / "pipe").c_str(), O_WRONLY | O_CLOEXEC);
  write_file_atomic(format("/dev/fd/{}", writer), " and through");
  char bytes[64] = {};
  EXPECT_EQ(::read(reader, bytes, sizeof bytes), 19);
  EXPECT_STREQ(bytes, "through and through");
  ::close(writer);
  ::close(reader);
  EXPECT_EQ(std::filesystem::status(folder_ / "pipe").type(), std::filesystem::file_type::fifo);
  EXPECT_EQ(files_in(folder_.path()), 2u);
}

// kerf plan --out /dev/stdout > file
TEST_F(File, ThatTheStandardOutputGoesIntoIsWrittenInto) {
  const std::filesystem::path shell = folder_ / "shell";
  for (const std::filesystem::path& named : {std::filesystem::path("/dev/fd/1"), shell}) {
    std::fflush(stdout);
    const int kept = ::dup(STDOUT_FILENO);
    const int redirected = ::open(shell.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ASSERT_GE(redirected, 0);
    ::dup2(redirected, STDOUT_FILENO);
    std::printf("before, ");
    std::fflush(stdout);
    write_file_atomic(named, "a plan, ");
    std::printf("behind");
    std::fflush(stdout);
    ::dup2(kept, STDOUT_FILENO);
    ::close(kept);
    ::close(redirected);
    EXPECT_EQ(read_file(shell), "before, a plan, behind") << named;
  }
  EXPECT_EQ(files_in(folder_.path()), 1u);
}

TEST_F(File, MayHaveTheLongestName) {
  const std::string longest(255, 'a');
  write_file_atomic(folder_ / longest, "x");
  EXPECT_EQ(read_file(folder_ / longest), "x");
  const auto error = error_of([&] { write_file_atomic(folder_ / (longest + "a"), "x"); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("File name too long"));
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

void become_old(const std::filesystem::path& file) {
  std::filesystem::last_write_time(
      file, std::filesystem::file_time_type::clock::now() - std::chrono::minutes(1));
}

TEST_F(File, OfADeadWriterIsRemovedAndOfALivingOneIsNot) {
  const pid_t killed = ::fork();
  if (killed == 0) {
    AtomicFile dead(folder_ / "dead");
    dead.write("half of");
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_EQ(::waitpid(killed, nullptr, 0), killed);
  EXPECT_EQ(files_in(folder_.path()), 1u);
  AtomicFile living(folder_ / "living");
  living.write("all of it");
  write_file_atomic(folder_ / ".kerf-lock", "another's");
  for (const auto& file : std::filesystem::directory_iterator(folder_.path())) become_old(file);
  std::ofstream(folder_ / ".kerf-0123456789abcdef.tmp") << "its writer locks it in a moment";
  remove_abandoned_files(folder_.path());
  EXPECT_EQ(files_in(folder_.path()), 3u);
  living.commit();
  EXPECT_EQ(read_file(folder_ / "living"), "all of it");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "dead"));
  remove_abandoned_files(folder_ / "nowhere");
}

}  // namespace
}  // namespace kerf::runtime
