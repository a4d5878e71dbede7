// Folders of keys: what is made, and that nothing is taken from a file which others could have
// changed or which holds something else.
#include "runtime/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "runtime/error.h"
#include "runtime/file.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::runtime {
namespace {

using testing::HasSubstr;
using tests::error_of;

class Keys : public testing::Test {
 protected:
  Keys() { make_keys(keys_); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(keys_ / name, std::ios::binary) << text;
  }
  std::string text(const std::string& name) const { return read_file(keys_ / name); }
  // Whether that side refuses the folder, naming this file of it (empty: itself) and the reason.
  void expect_refused(bool scheduler, const std::string& file, const std::string& why) {
    const auto error = error_of([&] {
      if (scheduler)
        read_scheduler_keys(keys_);
      else
        read_worker_keys(keys_);
    });
    ASSERT_TRUE(error) << file << ": " << why;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_THAT(error->what(), HasSubstr(file.empty() ? keys_.string() : (keys_ / file).string()));
    EXPECT_THAT(error->message(), HasSubstr(why));
  }

  const tests::TemporaryFolder folder_;
  const std::filesystem::path keys_ = folder_ / "keys";
};

TEST_F(Keys, AreForTheirOwnerAlone) {
  struct stat facts {};
  ASSERT_EQ(::stat(keys_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0700U);
  for (const char* name :
       {"scheduler.secret", "scheduler.public", "worker.secret", "workers.allowed"}) {
    ASSERT_EQ(::stat((keys_ / name).c_str(), &facts), 0) << name;
    EXPECT_EQ(facts.st_mode & 07777, 0600U) << name;
    EXPECT_EQ(facts.st_size, 41) << name;
  }
}

TEST_F(Keys, AreNeverOverwritten) {
  const std::string before = text("scheduler.secret");
  const auto error = error_of([&] { make_keys(keys_); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_EQ(text("scheduler.secret"), before);
  EXPECT_TRUE(error_of([&] { make_keys(folder_ / "no" / "such"); }));
}

TEST_F(Keys, OfTwoFoldersDiffer) {
  make_keys(folder_ / "others");
  EXPECT_NE(read_scheduler_keys(keys_).secret_key,
            read_scheduler_keys(folder_ / "others").secret_key);
  EXPECT_NE(read_worker_keys(keys_).public_key, read_worker_keys(folder_ / "others").public_key);
}

// Each half of a run needs two of the files.
TEST_F(Keys, AreReadByTheSideThatHasThem) {
  std::filesystem::create_directory(folder_ / "worker");
  std::filesystem::permissions(folder_ / "worker", std::filesystem::perms::owner_all);
  for (const char* name : {"worker.secret", "scheduler.public"})
    std::filesystem::rename(keys_ / name, folder_ / "worker" / name);
  EXPECT_EQ(read_scheduler_keys(keys_).allowed.size(), 1U);
  const WorkerKeys worker = read_worker_keys(folder_ / "worker");
  EXPECT_EQ(worker.public_key + "\n", text("workers.allowed"));
  expect_refused(false, "worker.secret", "cannot be opened");
  EXPECT_TRUE(error_of([&] { read_scheduler_keys(folder_ / "worker"); }));
}

TEST_F(Keys, OfSeveralWorkersAreAllowed) {
  make_keys(folder_ / "others");
  write("workers.allowed",
        text("workers.allowed") + "\n" + read_worker_keys(folder_ / "others").public_key);
  EXPECT_EQ(read_scheduler_keys(keys_).allowed.size(), 2U);
}

TEST_F(Keys, ThatOthersMayReadOrChangeAreRefused) {
  for (const auto& [scheduler, name, mode] :
       std::vector<std::tuple<bool, std::string, mode_t>>{{true, "scheduler.secret", 0640},
                                                          {true, "scheduler.secret", 0604},
                                                          {true, "scheduler.secret", 0610},
                                                          {true, "workers.allowed", 0620},
                                                          {true, "workers.allowed", 0602},
                                                          {false, "worker.secret", 0440},
                                                          {false, "scheduler.public", 0666}}) {
    ::chmod((keys_ / name).c_str(), mode);
    expect_refused(scheduler, name, kerf::format("{:04o}", mode));
    ::chmod((keys_ / name).c_str(), 0600);
  }
  for (const char* name : {"workers.allowed", "scheduler.public"})
    ::chmod((keys_ / name).c_str(), 0644);  // they are no secrets
  read_scheduler_keys(keys_);
  read_worker_keys(keys_);
}

// Where others write they put their own files, whatever the modes of those that were there.
TEST_F(Keys, OfAFolderThatOthersMayChangeAreRefused) {
  for (const mode_t mode : {0770, 0707, 0720, 0702}) {
    ::chmod(keys_.c_str(), mode);
    for (const bool scheduler : {true, false})
      expect_refused(scheduler, "", kerf::format("{:04o}", mode));
  }
  ::chmod(keys_.c_str(), 0755);  // who may look still reads no secret
  read_scheduler_keys(keys_);
  read_worker_keys(keys_);
}

TEST_F(Keys, BehindLinksAreRefused) {
  std::filesystem::rename(keys_ / "scheduler.public", folder_ / "elsewhere");
  std::filesystem::create_symlink(folder_ / "elsewhere", keys_ / "scheduler.public");
  expect_refused(false, "scheduler.public", "symbolic link");
  std::filesystem::create_directory_symlink(keys_, folder_ / "link");
  read_scheduler_keys(folder_ / "link");  // the folder that it leads to is looked at
}

TEST_F(Keys, OfAnotherUserAreRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(::chown((keys_ / "workers.allowed").c_str(), 65534, 65534), 0);
  expect_refused(true, "workers.allowed", "another user");
  ASSERT_EQ(::chown(keys_.c_str(), 65534, 65534), 0);
  expect_refused(false, "", "another user");
}

TEST_F(Keys, ThatAreNoneAreRefused) {
  const std::string key = text("worker.secret").substr(0, 40);
  for (const std::string& none :
       {std::string(), key.substr(1), key + "x", key.substr(1) + "\"", key.substr(1) + " ",
        std::string(40, '\0'), key.substr(1) + '\0', std::string(40, '#'), "\n" + key}) {
    write("worker.secret", none);
    expect_refused(false, "worker.secret", "");
  }
  write("workers.allowed", text("workers.allowed") + "not a key\n");
  expect_refused(true, "workers.allowed:2", "no key");
  write("workers.allowed", "\n\n");
  expect_refused(true, "workers.allowed", "names no key");
  write("workers.allowed", std::string(10 << 20, '\n'));
  expect_refused(true, "workers.allowed", "bytes");
}

TEST_F(Keys, ThatAreNoFilesAreRefused) {
  std::filesystem::remove(keys_ / "scheduler.secret");
  ASSERT_EQ(::mkfifo((keys_ / "scheduler.secret").c_str(), 0600), 0);
  expect_refused(true, "scheduler.secret", "no regular file");
}

}  // namespace
}  // namespace kerf::runtime
