// A folder in memory outlives its process by some seconds, and never longer.
#include "runtime/memory_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/free_memory.h"
#include "runtime/memory_folder_lock.h"
#include "runtime/store.h"
#include "runtime/time.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::runtime {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;

bool within(Clock::duration time, const std::function<bool()>& is_so) {
  for (const Deadline deadline = Clock::now() + time; Clock::now() < deadline;) {
    if (is_so()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return is_so();
}

bool is_gone(const fs::path& path) { return !fs::exists(path); }

// As it calls itself. Whoever looks whether a folder is abandoned has its mark, too, for a moment,
// and may be another test.
bool is_warden(const fs::path& process) {
  std::ifstream title(process / "cmdline");
  const std::string words{std::istreambuf_iterator<char>(title), {}};
  return words.find(" warden") != std::string::npos;
}

// The warden of that folder; 0: there is none.
int warden_of(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    std::error_code not_ours;
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    for (const char* held : {"3", "4", "5", "6"})
      if (fs::read_symlink(entry.path() / "fd" / held, not_ours) == folder / kWardenMark &&
          is_warden(entry.path()))
        return std::stoi(name);
  }
  return 0;
}

// It may take a while to be there.
void tell_warden_of(const fs::path& folder, int signal) {
  int warden = 0;
  KERF_CHECK(within(10s, [&] { return (warden = warden_of(folder)) != 0; }), "there is no warden");
  ::kill(warden, signal);
}

// Made by a process that is killed once `fill` has put something into it, if anything.
fs::path left_by_a_killed_process(std::chrono::seconds outlives,
                                  const std::function<void(const fs::path&)>& fill) {
  int ends[2];
  KERF_CHECK(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      const MemoryFolder folder = MemoryFolder::make(outlives);
      KERF_CHECK(within(10s, [&] { return warden_of(folder.path()) != 0; }), "there is no warden");
      fill(folder.path());
      KERF_CHECK(write_whole(ends[1], folder.path().string()));
      ::raise(SIGKILL);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(1);  // it is no second run of tests
  }
  ::close(ends[1]);
  std::string path(100, '\0');
  const ssize_t count = ::read(ends[0], path.data(), path.size());
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  KERF_CHECK(count > 0);
  return path.substr(0, static_cast<size_t>(count));
}

void put_something(const fs::path& folder) {
  fs::create_directory(folder / "within");
  write_file_atomic(folder / "within" / "file", "what was held");
}

std::string refusal(const fs::path& path) {
  const auto error = tests::error_of([&] { MemoryFolder::claim(path); });
  return error && error->code() == ErrorCode::kUnavailable ? error->what() : "it was not refused";
}

TEST(MemoryFolder, IsOfThisUserAloneAndGoesWithItsWarden) {
  MemoryFolder folder = MemoryFolder::make(60s);
  const fs::path path = folder.path();
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
  EXPECT_THAT(path.string(), testing::StartsWith("/dev/shm/kerf-kept-"));
  EXPECT_TRUE(lies_in_memory_folder(path / "file"));
  EXPECT_FALSE(lies_in_memory_folder("/dev/shm/other/kerf-kept-/file"));
  ASSERT_TRUE(within(10s, [&] { return warden_of(path) != 0; }));
  put_something(path);
  folder.remove();
  EXPECT_TRUE(is_gone(path));
  EXPECT_EQ(warden_of(path), 0);
  folder.remove();  // there is none
}

TEST(MemoryFolder, OfAKilledProcessIsThereForWhoComes) {
  const fs::path path = left_by_a_killed_process(60s, put_something);
  {
    const MemoryFolder claimed = MemoryFolder::claim(path);
    EXPECT_EQ(read_file(path / "within" / "file"), "what was held");
    EXPECT_THAT(refusal(path), HasSubstr("another run has it now"));
  }
  MemoryFolder again = MemoryFolder::claim(path);
  EXPECT_EQ(read_file(path / "within" / "file"), "what was held");
  again.remove();
  EXPECT_TRUE(is_gone(path));
  EXPECT_TRUE(within(5s, [&] { return warden_of(path) == 0; }));
  EXPECT_THAT(refusal(path), HasSubstr("it is gone"));
}

TEST(MemoryFolder, GoesWhenNobodyComes) {
  const fs::path path = left_by_a_killed_process(1s, put_something);
  EXPECT_FALSE(is_gone(path));
  EXPECT_TRUE(within(5s, [&] { return is_gone(path) && warden_of(path) == 0; }));
}

TEST(MemoryFolder, OutlivesWhoClaimedItAndDied) {
  const fs::path path = left_by_a_killed_process(1s, put_something);
  {
    const MemoryFolder claimed = MemoryFolder::claim(path);
    std::this_thread::sleep_for(2s);
    EXPECT_FALSE(is_gone(path)) << "it is in use";
  }
  EXPECT_TRUE(within(5s, [&] { return is_gone(path); }));
}

// As long as behind the first.
TEST(MemoryFolder, IsThereForWhoComesBehindThat) {
  const fs::path path = left_by_a_killed_process(2s, put_something);
  {
    const MemoryFolder claimed = MemoryFolder::claim(path);
    std::this_thread::sleep_for(1700ms);
  }
  std::this_thread::sleep_for(1s);
  EXPECT_FALSE(is_gone(path));
  EXPECT_TRUE(within(5s, [&] { return is_gone(path); }));
}

// So one that begins again, whose children are nobody's, leaves no dead ones.
TEST(MemoryFolder, ItsWardenIsNoChildOfItsProcess) {
  MemoryFolder folder = MemoryFolder::make(60s);
  ASSERT_TRUE(within(10s, [&] { return warden_of(folder.path()) != 0; }));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  folder.remove();
}

TEST(MemoryFolder, InWhichThereIsNothingGoesAtOnce) {
  const fs::path path = left_by_a_killed_process(60s, [](const fs::path&) {});
  EXPECT_TRUE(within(5s, [&] { return is_gone(path) && warden_of(path) == 0; }));
}

TEST(MemoryFolder, WhoseWardenIsAskedToEndGoesWithItsProcess) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const fs::path path = left_by_a_killed_process(60s, [&](const fs::path& folder) {
      put_something(folder);
      tell_warden_of(folder, signal);
      std::this_thread::sleep_for(200ms);
      KERF_CHECK(!is_gone(folder), "it went before");
    });
    EXPECT_TRUE(within(5s, [&] { return is_gone(path) && warden_of(path) == 0; })) << signal;
  }
}

TEST(MemoryFolder, WhoseWardenIsAskedToEndLaterGoesAtOnce) {
  const fs::path path = left_by_a_killed_process(60s, put_something);
  tell_warden_of(path, SIGTERM);
  EXPECT_TRUE(within(5s, [&] { return is_gone(path) && warden_of(path) == 0; }));
}

TEST(MemoryFolder, WhoseWardenWasKilledGoesWithTheNext) {
  const fs::path path = left_by_a_killed_process(60s, [](const fs::path& folder) {
    put_something(folder);
    tell_warden_of(folder, SIGKILL);
  });
  EXPECT_TRUE(within(5s, [&] { return warden_of(path) == 0; }));
  const fs::path waits = left_by_a_killed_process(60s, put_something);
  MemoryFolder next = MemoryFolder::make(60s);
  EXPECT_TRUE(is_gone(path));
  EXPECT_FALSE(is_gone(waits)) << "somebody may come for it";
  next.remove();
  MemoryFolder::claim(waits).remove();
}

// The path leads to what is held.
bool is_there(const HeldFolder& folder) {
  struct stat held {};
  struct stat found {};
  return ::fstat(folder.lock.number(), &held) == 0 && ::lstat(folder.path.c_str(), &found) == 0 &&
         held.st_ino == found.st_ino;
}

// A run that begins looks at the folders of those that began just before, whose wardens are not
// there yet: it leaves them what they have, and waits for nobody.
TEST(MemoryFolder, OfARunThatBeginsIsLeftByTheNextAtOnce) {
  const HeldFolder folder = make_held_folder();
  const auto began = Clock::now();
  remove_abandoned_folders();
  EXPECT_LT(Clock::now() - began, 700ms);
  EXPECT_TRUE(is_there(folder));
  remove_memory_folder(folder.path);
}

TEST(MemoryFolder, ThatGoesWhileSomebodyWaitsForItIsRefused) {
  auto held = std::make_unique<HeldFolder>(make_held_folder());
  const fs::path path = held->path;
  const std::jthread removes([&] {
    std::this_thread::sleep_for(100ms);
    remove_memory_folder(path);
    held.reset();
  });
  EXPECT_THAT(refusal(path), HasSubstr("it is gone"));
}

// Between the making of a folder and its lock others may take it for abandoned: whoever makes one
// has one that is there, and keeps it.
TEST(MemoryFolder, IsTheMakersThoughOthersRemoveWhatIsAbandoned) {
  std::atomic<bool> over{false};
  std::atomic<int> made{0};
  std::atomic<int> lost{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (!over) remove_abandoned_folders();
    });
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      for (; !over; ++made) {
        const HeldFolder mine = make_held_folder();
        if (!is_there(mine)) ++lost;
        std::this_thread::yield();
        if (!is_there(mine)) ++lost;
      }  // from here on it is nobody's
    });
  std::this_thread::sleep_for(1500ms);
  over = true;
  threads.clear();
  remove_abandoned_folders();
  EXPECT_EQ(lost.load(), 0) << "of " << made.load();
  EXPECT_GT(made.load(), 20);
}

// Begins when a byte comes, makes one, is through with it when another does, and ends: 0, where
// nobody took it from him.
pid_t begin_run_at_once_with_others(int begin, int end) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  int code = 1;
  try {
    char byte = 0;
    KERF_CHECK(::read(begin, &byte, 1) == 1);
    MemoryFolder folder = MemoryFolder::make(60s);
    put_something(folder.path());
    KERF_CHECK(within(10s, [&] { return warden_of(folder.path()) != 0; }), "there is no warden");
    KERF_CHECK(::read(end, &byte, 1) == 1);
    const fs::path path = folder.path();
    KERF_CHECK(read_file(path / "within" / "file") == "what was held");
    folder.remove();
    KERF_CHECK(is_gone(path), "it is not removed");
    code = 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  ::_exit(code);
}

TEST(MemoryFolder, IsOfEachOfManyThatBeginAtOnce) {
  constexpr int kRuns = 8;
  int begin[2], end[2];
  KERF_CHECK(::pipe(begin) == 0 && ::pipe(end) == 0);
  std::vector<pid_t> runs;
  for (int i = 0; i < kRuns; ++i) runs.push_back(begin_run_at_once_with_others(begin[0], end[0]));
  KERF_CHECK(write_whole(begin[1], std::string(kRuns, 'b')));
  std::this_thread::sleep_for(500ms);
  KERF_CHECK(write_whole(end[1], std::string(kRuns, 'e')));
  for (const pid_t run : runs) {
    int status = -1;
    EXPECT_EQ(::waitpid(run, &status, 0), run);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  for (const int each : {begin[0], begin[1], end[0], end[1]}) ::close(each);
}

TEST(MemoryFolder, WithoutAWardenIsRemovedAllTheSame) {
  MemoryFolder folder = MemoryFolder::make(60s);
  ASSERT_TRUE(within(10s, [&] { return warden_of(folder.path()) != 0; }));
  tell_warden_of(folder.path(), SIGKILL);
  const fs::path path = folder.path();
  put_something(path);
  folder.remove();
  EXPECT_TRUE(is_gone(path));
}

TEST(MemoryFolder, WhatIsNoneIsRefused) {
  const tests::TemporaryFolder elsewhere;
  const std::string name =
      kerf::format("kerf-kept-{:032x}", static_cast<uint64_t>(now_ns()) * ::getpid());
  fs::create_directory(elsewhere / name);
  const fs::path there = fs::path("/dev/shm") / name;
  EXPECT_THAT(refusal(there), HasSubstr("it is gone"));
  for (const fs::path& path :
       {elsewhere / name, elsewhere.path(), fs::path("/dev/shm"), fs::path(), there / ".." / "..",
        fs::path("/dev/shm/../shm") / name, fs::path("/dev/shm/kerf-kept-") / name, there / ""})
    EXPECT_THAT(refusal(path), HasSubstr("no folder that a run of Kerf keeps")) << path;
  fs::create_directory_symlink(elsewhere / name, there);
  EXPECT_THAT(refusal(there), HasSubstr("cannot be opened"));
  fs::remove(there);
  fs::create_directory(there);
  fs::permissions(there, fs::perms::owner_all | fs::perms::group_read);
  EXPECT_THAT(refusal(there), HasSubstr("other users may look into it"));
  if (::chown(there.c_str(), 4321, 4321) == 0) {
    EXPECT_THAT(refusal(there), HasSubstr("another user's"));
  }
  fs::remove_all(there);
}

// A file in one leaves a sixteenth of the memory to others.
TEST(MemoryFolder, WithoutRoomNothingIsWritten) {
  MemoryFolder folder = MemoryFolder::make(60s);
  const tests::TemporaryFolder disk;
  const auto write = [](LocalStore store, const fs::path& path) {
    return tests::error_of([&] {
      const auto file = store.create(path);
      file->write("what is held");
      file->commit();
    });
  };
  const LocalStore full(host_memory().all);
  const auto error = write(full, folder.path() / "file");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->what(), HasSubstr("has no room for what its workers keep"));
  EXPECT_FALSE(holds_something(folder.path()));
  EXPECT_FALSE(write(full, disk / "file"));
  EXPECT_FALSE(write(LocalStore(), folder.path() / "file"));
  EXPECT_EQ(read_file(folder.path() / "file"), "what is held");
  folder.remove();
}

}  // namespace
}  // namespace kerf::runtime
