// Snapshots that a run does not go on from, and folders that it does not write into.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "runtime/file.h"
#include "schedmp/memory_journal.h"
#include "tests/schedmp/kept_walk.h"

namespace kerf::schedmp {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class RefusedSnapshots : public WalksThatKeepSnapshots {};

TEST_F(RefusedSnapshots, WhatIsThereIsNotLost) {
  interrupt(9);
  std::filesystem::create_directories(folder_ / "kept" / "round-trip");
  KeptWalk other(2, 2);
  EXPECT_THAT(told([&] { run(other, kept()); }),
              AllOf(HasSubstr("kept"), HasSubstr("checkpoints of another run")));
  EXPECT_THAT(files(), ElementsAre("checkpoint-8", "round-trip"));
  SnapshotOptions options = kept();
  options.resume = options.folder;
  KeptWalk again(2, 2);
  run(again, options);
  EXPECT_THAT(files(), ElementsAre("checkpoint-28", "round-trip"));
}

// A journal of what a run before kept in memory, which nobody came for in time.
TEST_F(RefusedSnapshots, WhatSaysWhereAGoneMemoryWasGoesWithTheFirst) {
  const std::filesystem::path folder = folder_ / "kept";
  std::filesystem::create_directories(folder);
  keep_memory_journal(folder, {"/dev/shm/kerf-kept-00000000000000000000000000000000", this_boot()});
  KeptWalk walk(2, 2);
  run(walk, kept());
  EXPECT_THAT(files(), ElementsAre("checkpoint-28"));
}

TEST_F(RefusedSnapshots, OneRunAtATimeWritesIntoAFolder) {
  auto lock = lock_folder(folder_ / "kept");
  KeptWalk walk(2, 2);
  EXPECT_THAT(told([&] { run(walk, kept()); }),
              AllOf(HasSubstr("kept"), HasSubstr("another run has its checkpoints in it now")));
  SnapshotOptions options = kept();
  options.lock = lock;
  run(walk, options);
  EXPECT_THAT(files(), ElementsAre(".kerf-lock", "checkpoint-28"));
}

TEST_F(RefusedSnapshots, OfARunThatHadOtherFlagsIsRefused) {
  SnapshotOptions options = kept();
  options.run = {{"--lambda", "0.5"}};
  KeptWalk walk(2, 2);
  run(walk, options);
  KeptWalk again(2, 2);
  EXPECT_THAT(told([&] {
                run(again, {.resume = folder_ / "kept", .run = {{"--lambda", "0.4"}}});
              }),
              HasSubstr("its run had --lambda 0.5, and this one has 0.4"));
  EXPECT_THAT(told([&] { run(again, {.resume = folder_ / "kept"}); }),
              HasSubstr("its run had --lambda 0.5, and this one has none"));
  EXPECT_THAT(
      told([&] {
        run(again, {.resume = folder_ / "kept", .run = {{"--lambda", "0.5"}, {"--tol", "9"}}});
      }),
      HasSubstr("its run had no --tol, and this one has 9"));
  run(again, {.resume = folder_ / "kept", .run = options.run});
  EXPECT_EQ(again.place, walk.place);
}

TEST_F(RefusedSnapshots, OfAnotherRunIsRefused) {
  interrupt(9);
  EXPECT_THAT(resume_error(KeptWalk(3, 2)), HasSubstr("it is of 2 workers, and this run has 3"));
  EXPECT_THAT(resume_error(KeptWalk(2, 2, 8)), HasSubstr("told something else"));
  Hurry hurry(2, 2);
  EXPECT_THAT(told([&] { run(hurry, {.resume = folder_ / "kept"}); }),
              AllOf(HasSubstr("checkpoint-8"), HasSubstr("of the program walk, not hurry")));
}

TEST_F(RefusedSnapshots, ThatWasChangedIsRefusedWithItsFile) {
  interrupt(9);
  for (const char* part : {"checkpoint-8/scheduler", "checkpoint-8/worker-1"}) {
    const std::filesystem::path file = folder_ / "kept" / part;
    const std::string bytes = runtime::read_file(file);
    std::string changed = bytes;
    changed[3] ^= 4;
    for (const std::string& wrong : {changed, bytes + "x", std::string()}) {
      runtime::write_file_atomic(file, wrong);
      EXPECT_THAT(resume_error(KeptWalk(2, 2)),
                  AllOf(HasSubstr(part), HasSubstr("not what its run wrote")));
    }
    std::filesystem::remove(file);
    EXPECT_THAT(resume_error(KeptWalk(2, 2)), HasSubstr(part));
    runtime::write_file_atomic(file, bytes);
  }
  KeptWalk again(2, 2);
  run(again, {.resume = folder_ / "kept"});
  EXPECT_EQ(again.asked, kRounds + 1 - 8) << "as it was";
}

// It needs a file for what it takes.
struct ReadingWorker : public KeptWalkWorker {
  void restore(std::string_view /*snapshot*/) override {
    throw Error(ErrorCode::kUsage, "expected a number", "data.mtx:7");
  }
};

// What a half reads beside it has a place of its own.
TEST_F(RefusedSnapshots, WhatAHalfMissesElsewhereIsNamedToo) {
  interrupt(6);
  KeptWalk program(2, 2);
  EXPECT_THAT(told([&] { run<KeptWalk, ReadingWorker>(program, {.resume = folder_ / "kept"}); }),
              AllOf(HasSubstr("worker-"), HasSubstr("data.mtx:7: expected a number")));
}

TEST_F(RefusedSnapshots, OfAnOlderVersionIsRefusedByName) {
  std::filesystem::create_directories(folder_ / "kept");
  runtime::write_file_atomic(folder_ / "kept" / "snapshot.json", "{\"kerf_snapshot\": 1}");
  EXPECT_THAT(resume_error(KeptWalk(2, 2)),
              AllOf(HasSubstr("snapshot.json"), HasSubstr("an older version")));
}

TEST_F(RefusedSnapshots, AManifestThatIsNoneIsRefused) {
  EXPECT_THAT(resume_error(KeptWalk(2, 2)), HasSubstr("there is no checkpoint in it"));
  interrupt(9);
  const std::filesystem::path file = folder_ / "kept" / "checkpoint-8" / "manifest.json";
  const std::string text = runtime::read_file(file);
  for (const std::string& wrong :
       {std::string("{"), std::string("{}"), std::string("[]"),
        std::string(text).replace(text.find("\"round\": 8"), 10, "\"round\": -8"),
        std::string(text).replace(text.find("worker-1"), 8, "worker-9")}) {
    runtime::write_file_atomic(file, wrong);
    EXPECT_THAT(resume_error(KeptWalk(2, 2)), HasSubstr("manifest.json")) << wrong;
  }
}

}  // namespace
}  // namespace kerf::schedmp
