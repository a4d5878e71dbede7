// R11 of the contract on faults: whatever the system refuses within a save, and wherever a process
// is killed in it, the snapshot before or the new one is whole: every call of the system that
// touches their folder fails once, in a run of its own. (This program has those calls in place of
// the C library.)
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "schedmp/piece_writer.h"
#include "schedmp/scheduler.h"
#include "schedmp/state.h"
#include "tests/support/errors.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/temporary_folder.h"

namespace {

constexpr int kKilled = -1;
constexpr const char* kWatched = "/watched-snapshots/";

std::atomic<int> calls_left{-1};  // until one goes wrong; below 0: none does
std::atomic<int> wrong_by{0};     // an error number, or kKilled

// Whether this call is the one; sets errno.
bool goes_wrong(const std::string& path) {
  if (calls_left < 0 || (path + "/").find(kWatched) == std::string::npos) return false;
  if (calls_left-- != 0) return false;
  if (wrong_by == kKilled) syscall(SYS_kill, getpid(), SIGKILL);
  errno = wrong_by;
  return true;
}

std::string path_of(int file) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const long size = syscall(SYS_readlink, link.c_str(), path, sizeof path);
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : std::string();
}

std::string path_at(int folder, const char* name) {
  return name[0] == '/' || folder == AT_FDCWD ? std::string(name) : path_of(folder) + "/" + name;
}

}  // namespace

extern "C" {

int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(rest, unsigned) : 0;
  va_end(rest);
  if (goes_wrong(path_at(folder, path))) return -1;
  return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(rest, unsigned) : 0;
  va_end(rest);
  if (goes_wrong(path)) return -1;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

ssize_t write(int file, const void* bytes, size_t count) {
  if (calls_left >= 0 && goes_wrong(path_of(file))) return -1;
  return syscall(SYS_write, file, bytes, count);
}

int fsync(int file) {
  if (calls_left >= 0 && goes_wrong(path_of(file))) return -1;
  return static_cast<int>(syscall(SYS_fsync, file));
}

int close(int file) {
  const bool wrong = calls_left >= 0 && goes_wrong(path_of(file));
  const long closed = syscall(SYS_close, file);
  return wrong ? -1 : static_cast<int>(closed);
}

int rename(const char* from, const char* to) noexcept {
  if (goes_wrong(to)) return -1;
  return static_cast<int>(syscall(SYS_rename, from, to));
}

int unlink(const char* path) noexcept {
  if (goes_wrong(path)) return -1;
  return static_cast<int>(syscall(SYS_unlink, path));
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  if (goes_wrong(path_at(folder, path))) return -1;
  return static_cast<int>(syscall(SYS_unlinkat, folder, path, flags));
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (goes_wrong(path)) return -1;
  return static_cast<int>(syscall(SYS_mkdir, path, mode));
}

int stat(const char* path, struct stat* facts) noexcept {
  if (goes_wrong(path)) return -1;
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, facts, 0));
}

dirent* readdir(DIR* folder) {
  static const auto real = reinterpret_cast<dirent* (*)(DIR*)>(dlsym(RTLD_NEXT, "readdir"));
  if (calls_left >= 0 && goes_wrong(path_of(dirfd(folder)))) return nullptr;
  return real(folder);
}

}  // extern "C"

namespace kerf::schedmp {
namespace {

namespace fs = std::filesystem;

struct StairMessages {
  using Job = NoJob;
  using Task = uint64_t;
  using Result = uint64_t;
};

constexpr int kStairWorkers = 2;
constexpr int64_t kStairRounds = 12;
constexpr int64_t kStairEvery = 4;

// Before the second snapshot calls begin to go wrong.
struct Stair : public KeepsState<Stair, SchedulerHalf<StairMessages>> {
  std::string name() const override { return "stair"; }
  Decision schedule(int64_t round) override {
    if (round == kStairEvery + 1) calls_left = begins;
    if (round == kStairRounds) return Done{};
    std::vector<Task> tasks;
    for (int worker = 0; worker < kStairWorkers; ++worker) tasks.push_back({worker, place});
    return tasks;
  }
  void aggregate(int64_t /*round*/, std::vector<Result> results) override {
    for (const Result& each : results) place = place * 31 + each.payload;
  }
  template <class Archive>
  void state(Archive& archive) {
    archive(place);
  }
  bool goes_on_anywhere() const override { return divided; }
  uint64_t place = 1;
  int begins = -1;
  bool divided = false;
};

struct StairWorker : public KeepsState<StairWorker, WorkerHalf<StairMessages>> {
  uint64_t update(const uint64_t& task) override { return place = place * 17 + task; }
  template <class Archive>
  void state(Archive& archive) {
    archive(place);
  }
  uint64_t place = 5;
};

// As a training's, it writes its state as it goes, and finds it among all workers' files.
struct DividedStairWorker : public StairWorker, private DividedState {
  void start(runtime::Workplace& workplace, const NoJob& /*job*/) override {
    worker = static_cast<size_t>(workplace.worker);
    store = &workplace.store;
  }
  DividedState* divided_state() override { return this; }
  void save(PieceWriter& to, Reach /*reach*/) override {
    int64_t written = 0;
    for (const char byte : runtime::encode(place)) {
      if (written++ % to.most_bytes() == 0) to.begin();
      to.write({&byte, 1});
    }
  }
  void load(const std::vector<PlacedPart>& parts, const Alive& alive) override {
    const size_t pieces = parts.size() / kStairWorkers;
    const auto mine = parts.begin() + static_cast<ptrdiff_t>(worker * pieces);
    const std::vector<PlacedPart> own(mine, mine + static_cast<ptrdiff_t>(pieces));
    place = runtime::decode<uint64_t>(read_parts(*store, own, alive));
  }
  size_t worker = 0;
  runtime::Store* store = nullptr;
};

using Numbers = std::set<int64_t>;  // of snapshots

// Whether the workers' states are divided, and then they are in two pieces.
class FailingSaves : public testing::TestWithParam<bool> {
 protected:
  fs::path kept() const { return folder_ / "watched-snapshots"; }
  // What it comes to.
  uint64_t run(const SnapshotOptions& options, int begins = -1) {
    Stair program;
    program.begins = begins;
    program.divided = GetParam();
    const auto crew = kerf::tests::inproc_crew(
        kStairWorkers,
        {{"stair", GetParam() ? worker_half<DividedStairWorker> : worker_half<StairWorker>}});
    report_ = schedmp::run(program, *crew, {.snapshots = options});
    crew->stop();
    return program.place;
  }
  SnapshotOptions every() const {
    SnapshotOptions options{.folder = kept(), .every = kStairEvery};
    if (GetParam()) options.most_bytes = 5;
    return options;
  }
  void expect_goes_on(uint64_t end) {
    EXPECT_EQ(run({.resume = kept()}), end);
    EXPECT_FALSE(checkpoints_in(kept()).empty());
  }

  Numbers whole() const {
    Numbers found;
    for (const NumberedFolder& each : checkpoints_in(kept()))
      if (faults_of(each.path).empty()) found.insert(each.number);
    return found;
  }
  // What lies in the folder, by paths within,
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& each : fs::recursive_directory_iterator(kept()))
      found.insert(each.path().lexically_relative(kept()).string());
    return found;
  }
  // and would lie there with nothing but those snapshots in it.
  std::set<std::string> names_of(const Numbers& numbers) const {
    std::set<std::string> all;
    for (const int64_t number : numbers) {
      const fs::path one = checkpoint_path("", number);
      all.insert(one.string());
      for (const char* name : {"manifest.json", "scheduler", "worker-0", "worker-1"})
        all.insert((one / name).string());
      if (GetParam())
        for (const char* name : {"worker-0.1", "worker-1.1"}) all.insert((one / name).string());
    }
    return all;
  }
  // The lock's file, and of what is not whole no manifest: what a killed run may leave beside.
  void expect_nothing_but(const Numbers& numbers) const {
    const std::regex left(
        R"(\.kerf-lock|checkpoint-(4|8|12)(/(scheduler|worker-[01](\.1)?|\.kerf-[0-9a-f]{16}\.tmp))?)");
    const std::set<std::string> own = names_of(numbers);
    const std::set<std::string> found = names();
    EXPECT_TRUE(std::ranges::includes(found, own));
    for (const std::string& each : found)
      EXPECT_TRUE(own.contains(each) || std::regex_match(each, left)) << each;
  }

  kerf::tests::TemporaryFolder folder_;
  LoopReport report_;
};

TEST_P(FailingSaves, LeaveTheOneBeforeOrTheNewOneAndTheRunGoesOn) {
  const uint64_t end = run({});
  int failed = 0;
  for (const int error : {ENOSPC, EIO}) {
    bool any = true;
    for (int call = 0; any; ++call) {
      SCOPED_TRACE(testing::Message() << "call " << call << ", error " << error);
      fs::remove_all(kept());
      wrong_by = error;
      EXPECT_EQ(run(every(), call), end);
      any = calls_left < 0;
      calls_left = -1;
      EXPECT_EQ(report_.snapshots.taken + report_.snapshots.failed, 3);
      failed += static_cast<int>(report_.snapshots.failed);
      expect_goes_on(end);
    }
  }
  EXPECT_GT(failed, 20);
}

TEST_P(FailingSaves, OfAProcessThatIsKilledToo) {
  using testing::AnyOf;
  const uint64_t end = run({});
  int killed = 0;
  int times_of_two = 0;
  for (bool any = true; any; ++killed) {
    SCOPED_TRACE(testing::Message() << "call " << killed);
    fs::remove_all(kept());
    const pid_t child = fork();
    if (child == 0) {
      wrong_by = kKilled;
      run(every(), killed);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    any = WIFSIGNALED(status);
    const Numbers there = whole();
    EXPECT_THAT(there, AnyOf(Numbers{4}, Numbers{4, 8}, Numbers{8}, Numbers{8, 12}, Numbers{12}));
    expect_nothing_but(there);
    expect_goes_on(end);
    // A run that goes on leaves nothing of the one that was killed, but of one that had written its
    // last: it writes none itself, behind which an older one that is whole would go.
    SnapshotOptions options = every();
    options.resume = kept();
    EXPECT_EQ(run(options), end);
    EXPECT_EQ(names(), names_of(there.contains(12) ? there : Numbers{12}));
    times_of_two += there == Numbers{8, 12};
  }
  EXPECT_GT(times_of_two, 0);
  EXPECT_GT(killed, 40);
}

INSTANTIATE_TEST_SUITE_P(Halves, FailingSaves, testing::Bool(),
                         [](const auto& halves) { return halves.param ? "divided" : "whole"; });

}  // namespace
}  // namespace kerf::schedmp
