// What lies in a folder of checkpoints: what a manifest must say, and what goes and what stays.
#include "schedmp/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>

#include "runtime/crc32c.h"
#include "runtime/file.h"
#include "runtime/json.h"
#include "schedmp/folder_lock.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class CheckpointFolderTest : public testing::Test {
 protected:
  // Of one worker, empty files.
  fs::path write(int64_t number, const std::function<void(Checkpoint&)>& change = {}) const {
    fs::path path = checkpoint_path(folder_.path(), number);
    fs::create_directories(path);
    for (const fs::path& file : {scheduler_file(path), worker_file(path, 0)})
      runtime::write_file_atomic(file, "");
    Checkpoint manifest{
        .program = "walk", .number = number, .round = number, .workers = 1, .parts = {{{}}}};
    if (change) change(manifest);
    write_manifest(path, manifest);
    return path;
  }
  // What is in it, by paths within.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& each : fs::recursive_directory_iterator(folder_.path()))
      found.push_back(each.path().lexically_relative(folder_.path()).string());
    std::ranges::sort(found);
    return found;
  }

  kerf::tests::TemporaryFolder folder_;
};

TEST_F(CheckpointFolderTest, AManifestWithARightSumSaysNothingElseThanWhatIsThere) {
  EXPECT_THAT(faults_of(write(8)), testing::IsEmpty());
  const std::pair<std::function<void(Checkpoint&)>, std::string> wrongs[] = {
      {[](Checkpoint& c) { c.number = 9; }, "it is of checkpoint 9"},
      {[](Checkpoint& c) { c.round = INT64_MAX; }, "so many rounds"},
      {[](Checkpoint& c) { c.scheduler.bytes = -1; }, "scheduler is of no size"},
      {[](Checkpoint& c) { c.parts[0][0].bytes = INT64_MIN; }, "worker-0 is of no size"},
      {[](Checkpoint& c) { c.scheduler.bytes = c.parts[0][0].bytes = INT64_MAX; },
       "worker-0 is of no size"}};
  for (const auto& [change, told] : wrongs)
    EXPECT_THAT(faults_of(write(8, change)), ElementsAre(HasSubstr(told)));
}

// Two workers, whose files have one byte, two and three.
class CheckpointPieces : public CheckpointFolderTest {
 protected:
  fs::path write_pieces_of(const std::vector<std::vector<std::string>>& workers) const {
    fs::path path = write(8, [&](Checkpoint& manifest) {
      manifest.workers = static_cast<int64_t>(workers.size());
      manifest.parts.clear();
      for (const auto& pieces : workers)
        for (SnapshotPieces& own = manifest.parts.emplace_back(); const std::string& each : pieces)
          own.push_back({static_cast<int64_t>(each.size()), runtime::crc32c(each)});
    });
    const std::vector<PlacedPart> placed = placed_pieces(path, read_manifest(path));
    auto next = placed.begin();
    for (const auto& pieces : workers)
      for (const std::string& each : pieces) runtime::write_file_atomic((next++)->file, each);
    return path;
  }
  // Of a manifest where one name stands in place of another, with a right sum.
  std::string told_of(const fs::path& path, const std::string& from, const std::string& to) const {
    const fs::path file = path / "manifest.json";
    std::string text = runtime::read_file(file);
    text.replace(text.find(from), from.size(), to);
    Json json = parse_json(text, "test");
    json.erase("sum_of_the_above");
    json["sum_of_the_above"] = runtime::crc32c(json_text(json, 2));
    runtime::write_file_atomic(file, json_text(json, 2) + "\n");
    const auto error = kerf::tests::error_of([&] { read_manifest(path); });
    return error ? error->what() : "";
  }
};

TEST_F(CheckpointPieces, LieBesideEachOtherAndEachIsLookedAt) {
  const fs::path path = write_pieces_of({{"a"}, {"bb", "ccc"}});
  const Checkpoint manifest = read_manifest(path);
  EXPECT_EQ(manifest.bytes(), 6);
  EXPECT_EQ(manifest.files(), 4);
  EXPECT_THAT(names(), ElementsAre("checkpoint-8", "checkpoint-8/manifest.json",
                                   "checkpoint-8/scheduler", "checkpoint-8/worker-0",
                                   "checkpoint-8/worker-1", "checkpoint-8/worker-1.1"));
  std::vector<std::string> files;
  for (const PlacedPart& each : placed_pieces(path, manifest, 1))
    files.push_back(fs::path(each.file).filename());
  EXPECT_THAT(files, ElementsAre("worker-1", "worker-1.1"));
  EXPECT_THAT(faults_of(path), testing::IsEmpty());
  runtime::write_file_atomic(path / "worker-1.1", "ccd");
  EXPECT_THAT(faults_of(path), ElementsAre(HasSubstr("worker-1.1")));
  fs::remove(path / "worker-1.1");
  EXPECT_THAT(faults_of(path), ElementsAre(HasSubstr("worker-1.1")));
}

TEST_F(CheckpointPieces, GoWithTheirCheckpointAndWhatIsNamedAlmostSoStays) {
  const fs::path path = write_pieces_of({{"a", "bb", "ccc"}});
  for (const char* other : {"worker-0.", "worker-0.0", "worker-0.x", "worker-0.1.2", "worker-.1",
                            "worker-0.01", "worker-00"})
    runtime::write_file_atomic(path / other, "");
  prune(folder_.path(), 0);
  EXPECT_THAT(names(), ElementsAre("checkpoint-8", "checkpoint-8/worker-.1",
                                   "checkpoint-8/worker-0.", "checkpoint-8/worker-0.0",
                                   "checkpoint-8/worker-0.01", "checkpoint-8/worker-0.1.2",
                                   "checkpoint-8/worker-0.x", "checkpoint-8/worker-00"));
}

TEST_F(CheckpointPieces, AreAllThereOrTheManifestIsRefused) {
  for (const auto& [from, to] : {std::pair{"worker-1.1", "worker-1.2"},
                                 {"worker-1.1", "worker-2.1"},
                                 {"worker-1.1", "worker-2"},
                                 {"\"worker-1\"", "\"worker-1.0\""},
                                 {"worker-0", "worker-00"}}) {
    const fs::path path = write_pieces_of({{"a"}, {"bb", "ccc"}});
    EXPECT_THAT(told_of(path, from, to), HasSubstr("its files are not those of its workers")) << to;
  }
  const fs::path path = write_pieces_of({{"a"}, {"bb", "ccc"}});
  EXPECT_THAT(told_of(path, "\"kerf_checkpoint\": 2", "\"kerf_checkpoint\": 1"),
              HasSubstr("not what was written"));
}

// Those of earlier versions, which had one file a worker, say 1.
TEST_F(CheckpointPieces, OneAWorkerIsWrittenAsEver) {
  const fs::path one = write_pieces_of({{"a"}, {"bb"}});
  EXPECT_THAT(runtime::read_file(one / "manifest.json"), HasSubstr("\"kerf_checkpoint\": 1,"));
  const fs::path more = write_pieces_of({{"a"}, {"bb", "ccc"}});
  EXPECT_THAT(runtime::read_file(more / "manifest.json"), HasSubstr("\"kerf_checkpoint\": 2,"));
  EXPECT_THAT(told_of(more, "\"kerf_checkpoint\": 2", "\"kerf_checkpoint\": 3"),
              HasSubstr("of another version"));
}

TEST_F(CheckpointFolderTest, IsNotLockedByALinkInPlaceOfTheFile) {
  fs::create_symlink("elsewhere", folder_.path() / ".kerf-lock");
  const auto error = kerf::tests::error_of([&] { lock_folder(folder_.path()); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr(".kerf-lock"));
}

TEST_F(CheckpointFolderTest, OldOnesGoAndWhatWasBegun) {
  for (const int64_t number : {5, 40, 6}) write(number);
  const fs::path begun = write(41);
  fs::remove(begun / "manifest.json");
  runtime::write_file_atomic(begun / ".kerf-0123456789abcdef.tmp", "");
  prune(folder_.path(), 1);
  EXPECT_THAT(names(), ElementsAre("checkpoint-40", "checkpoint-40/manifest.json",
                                   "checkpoint-40/scheduler", "checkpoint-40/worker-0"));
  prune(folder_.path(), 0);
  EXPECT_THAT(names(), ElementsAre());
}

// Other trainers' checkpoints are named so, too.
TEST_F(CheckpointFolderTest, WhatIsNotOfKerfStays) {
  const fs::path other = folder_ / "checkpoint-500";
  fs::create_directories(other / "worker-1");
  fs::create_directories(folder_ / "checkpoint-x");
  for (const char* name : {"config.json", "scheduler.pt", "worker-x"})
    runtime::write_file_atomic(other / name, "");
  runtime::write_file_atomic(folder_ / "checkpoint-7", "a file");
  fs::create_directory_symlink(other, folder_ / "checkpoint-501");
  const std::vector<std::string> before = names();
  runtime::write_file_atomic(write(3) / "notes.txt", "");
  prune(folder_.path(), 0);
  std::vector<std::string> after = before;
  after.insert(after.end(), {"checkpoint-3", "checkpoint-3/notes.txt"});
  EXPECT_THAT(names(), testing::UnorderedElementsAreArray(after));
}

// With a manifest, or with names that a run gives beside others.
TEST_F(CheckpointFolderTest, WhatOthersNameSoIsNotCountedEither) {
  const fs::path told = folder_ / "checkpoint-500";
  const fs::path alike = folder_ / "checkpoint-501";
  const fs::path elsewhere = folder_ / "elsewhere";
  for (const fs::path& each : {told, alike, elsewhere}) fs::create_directories(each);
  runtime::write_file_atomic(told / "manifest.json", R"({"format": "of another trainer"})");
  for (const char* name : {"manifest.json", "scheduler", "worker-0", "model.bin"})
    runtime::write_file_atomic(alike / name, "others'");
  fs::rename(write(502), elsewhere / "checkpoint-502");
  fs::create_directory_symlink(elsewhere / "checkpoint-502", folder_ / "checkpoint-502");
  runtime::write_file_atomic(folder_ / "checkpoint-503", "a file");
  const std::vector<std::string> before = names();

  EXPECT_FALSE(has_checkpoints(folder_.path()));
  EXPECT_THAT(checkpoints_in(folder_.path()), testing::IsEmpty());
  for (const int64_t number : {3, 4}) write(number);
  prune(folder_.path(), 1);
  ASSERT_EQ(checkpoints_in(folder_.path()).size(), 1u);
  EXPECT_EQ(checkpoints_in(folder_.path())[0].number, 4) << "others take nobody's place";
  prune(folder_.path(), 0);
  EXPECT_EQ(names(), before);
}

// Others' manifests alone say nothing of a damaged one.
TEST_F(CheckpointFolderTest, OneThatIsDamagedIsStillOneAndGoes) {
  for (const char* manifest : {"", "\xff", "{\"kerf_checkpoin", "{\n  \"kerf_checkpoint\": 7"}) {
    SCOPED_TRACE(manifest);
    const fs::path path = write(8);
    runtime::write_file_atomic(path / "manifest.json", manifest);
    EXPECT_TRUE(has_checkpoints(folder_.path()));
    EXPECT_THAT(faults_of(path), ElementsAre(HasSubstr("manifest.json")));
    prune(folder_.path(), 0);
    EXPECT_THAT(names(), ElementsAre());
  }
}

TEST_F(CheckpointFolderTest, WhatCannotBeLookedAtIsOneAndStays) {
  if (::geteuid() == 0) GTEST_SKIP() << "the system lets its root look at everything";
  const fs::path path = write(8);
  const std::vector<std::string> before = names();
  fs::permissions(path, fs::perms::owner_write | fs::perms::owner_exec);
  fs::permissions(path / "manifest.json", fs::perms::none);
  EXPECT_TRUE(has_checkpoints(folder_.path()));
  prune(folder_.path(), 0);
  fs::permissions(path, fs::perms::owner_all);
  EXPECT_EQ(names(), before);
}

// What another writes has a lock of its own; in the first seconds its writer may not have it yet.
TEST_F(CheckpointFolderTest, ALockTakesAwayWhatADeadWriterLeft) {
  const fs::path dead = folder_ / ".kerf-0000000000000001.tmp";
  const fs::path young = folder_ / ".kerf-0000000000000002.tmp";
  runtime::AtomicFile living(folder_ / "memory.json");
  const auto become_old = [&] {
    for (const auto& each : fs::directory_iterator(folder_.path()))
      fs::last_write_time(each, fs::file_time_type::clock::now() - std::chrono::minutes(1));
  };
  runtime::write_file_atomic(dead, "half of");
  become_old();
  runtime::write_file_atomic(young, "half of");
  auto lock = lock_folder(folder_.path());
  ASSERT_TRUE(lock);
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(young));
  runtime::write_file_atomic(dead, "half of");
  become_old();
  EXPECT_FALSE(lock_folder(folder_.path()));
  EXPECT_TRUE(fs::exists(dead)) << "who has no lock takes nothing away";
  lock.reset();
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_FALSE(fs::exists(young));
  living.commit();
  EXPECT_THAT(names(), ElementsAre("memory.json"));
}

TEST_F(CheckpointFolderTest, ALockKeepsAllOthersOutAsLongAsItIsHeld) {
  const fs::path folder = folder_ / "new";
  for (int time = 0; time < 2; ++time) {
    auto lock = lock_folder(folder);
    ASSERT_TRUE(lock);
    EXPECT_FALSE(lock_folder(folder));
    const auto error = kerf::tests::error_of([&] { expect_lock(folder); });
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(), HasSubstr("another run has its checkpoints in it now"));
    lock.reset();
    EXPECT_TRUE(fs::is_empty(folder));
    runtime::write_file_atomic(folder / ".kerf-lock", "");  // as a process leaves it that is killed
  }
}

// Of a folder that went meanwhile, and is there again, another has the lock.
TEST_F(CheckpointFolderTest, ALockTakesNoOthersAway) {
  const fs::path folder = folder_ / "new";
  auto lock = lock_folder(folder);
  fs::remove_all(folder);
  const auto other = lock_folder(folder);
  ASSERT_TRUE(other);
  lock.reset();
  EXPECT_FALSE(lock_folder(folder));
}

TEST_F(CheckpointFolderTest, WhatCannotBecomeAFolderIsNamed) {
  runtime::write_file_atomic(folder_ / "file", "");
  const auto error = kerf::tests::error_of([&] { lock_folder(folder_ / "file" / "within"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->what(), HasSubstr("within"));
}

}  // namespace
}  // namespace kerf::schedmp
