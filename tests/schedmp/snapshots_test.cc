// A program that ends somewhere goes on from its last snapshot to the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "runtime/file.h"
#include "tests/schedmp/kept_walk.h"

namespace kerf::schedmp {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class TakenSnapshots : public WalksThatKeepSnapshots {};

TEST_F(TakenSnapshots, ARunThatGoesOnEndsWithTheSameBits) {
  for (const int workers : {1, 3})
    for (const int depth : {1, 2, 5}) {
      KeptWalk whole(workers, depth);
      std::filesystem::remove_all(folder_ / "kept");
      EXPECT_EQ(run(whole, kept()).rounds, kRounds);
      EXPECT_EQ(whole.asked, kRounds + 1);
      for (const int64_t round : {5, 8, 9, 29}) {
        interrupt(round, KeptWalk(workers, depth));
        KeptWalk again(workers, depth);
        SnapshotOptions options = kept();
        options.resume = options.folder;
        EXPECT_EQ(run(again, options).rounds, kRounds);
        EXPECT_EQ(again.asked, kRounds + 1 - round / 4 * 4) << "not from the beginning";
        EXPECT_EQ(again.place, whole.place)
            << workers << " workers, depth " << depth << ", ended in round " << round;
      }
    }
}

TEST_F(TakenSnapshots, ThereIsOneAtATime) {
  interrupt(15);
  EXPECT_THAT(files(), ElementsAre("checkpoint-12"));
}

TEST_F(TakenSnapshots, AsManyAsAreToBeKept) {
  SnapshotOptions options = kept();
  options.keep = 3;
  KeptWalk walk(2, 2);
  run(walk, options);
  EXPECT_THAT(files(), ElementsAre("checkpoint-20", "checkpoint-24", "checkpoint-28"));
}

// Its older ones serve, and those that are not whole go with the next.
TEST_F(TakenSnapshots, TheNewestThatIsWholeCounts) {
  SnapshotOptions options = kept();
  options.keep = 3;
  KeptWalk walk(2, 2);
  run(walk, options);
  std::filesystem::remove(folder_ / "kept" / "checkpoint-28" / "manifest.json");
  runtime::write_file_atomic(folder_ / "kept" / "checkpoint-24" / "worker-1", "");
  std::string notes;
  options.resume = options.folder;
  options.tell = [&](const std::string& what) { notes += what; };
  KeptWalk again(2, 2);
  run(again, options);
  EXPECT_EQ(again.place, walk.place);
  EXPECT_EQ(again.asked, kRounds + 1 - 20);
  EXPECT_THAT(notes, AllOf(HasSubstr("goes on from"), HasSubstr("checkpoint-24"),
                           HasSubstr("checkpoint-28")));
  EXPECT_THAT(files(), ElementsAre("checkpoint-20", "checkpoint-24", "checkpoint-28"));
}

TEST_F(TakenSnapshots, OneThatCannotBeWrittenIsToldAndTheRunGoesOn) {
  for (const int workers : {1, 3}) {
    KeptWalk undisturbed(workers, 2);
    SnapshotOptions options = kept();
    std::filesystem::remove_all(options.folder);
    run(undisturbed, options);  // rounds wait for each other at the same places
    std::vector<std::string> notes;
    options.tell = [&](const std::string& what) { notes.push_back(what); };
    std::filesystem::remove_all(options.folder);
    Hindered walk(workers, 2);
    walk.folder = options.folder;
    walk.twice = true;
    const LoopReport report = run(walk, options);
    EXPECT_EQ(walk.place, undisturbed.place);
    EXPECT_EQ(report.snapshots.taken, 4);
    EXPECT_EQ(report.snapshots.failed, 3) << "before rounds 12, 16 and 24";
    // Of the second nothing is told that is not known.
    EXPECT_THAT(notes,
                ElementsAre(AllOf(HasSubstr("the run goes on"), HasSubstr("checkpoint-12")),
                            AllOf(HasSubstr("the run goes on"), HasSubstr("checkpoint-24"))));
    EXPECT_THAT(files(), ElementsAre("checkpoint-28"));
  }
}

TEST_F(TakenSnapshots, WhereOthersHaveAFolderOfItsNameNoneIsWritten) {
  const std::filesystem::path others = folder_ / "kept" / "checkpoint-12";
  std::filesystem::create_directories(others);
  for (const char* name : {"manifest.json", "worker-0"})
    runtime::write_file_atomic(others / name, "of another trainer");
  std::vector<std::string> notes;
  SnapshotOptions options = kept();
  options.tell = [&](const std::string& what) { notes.push_back(what); };
  KeptWalk walk(2, 2);
  EXPECT_EQ(run(walk, options).snapshots.failed, 1);
  EXPECT_THAT(notes, ElementsAre(AllOf(HasSubstr("checkpoint-12: "), HasSubstr("moved away"))));
  EXPECT_THAT(files(), ElementsAre("checkpoint-12", "checkpoint-28"));
  for (const char* name : {"manifest.json", "worker-0"})
    EXPECT_EQ(runtime::read_file(others / name), "of another trainer");
  EXPECT_FALSE(std::filesystem::exists(others / "worker-1"));
}

// Before the first is written, for which there may be no room otherwise.
TEST_F(TakenSnapshots, WhatWasNotFinishedGoesWhenTheNextRunBegins) {
  const std::filesystem::path begun = folder_ / "kept" / "checkpoint-40";
  std::filesystem::create_directories(begun);
  for (const char* name : {"scheduler", "worker-0", ".kerf-0123456789abcdef.tmp"})
    runtime::write_file_atomic(begun / name, "half of");
  KeptWalk walk(2, 2);
  walk.fails_at = 1;
  EXPECT_THAT(told([&] { run(walk, kept()); }), HasSubstr("the light went out"));
  EXPECT_THAT(files(), ElementsAre());
}

TEST_F(TakenSnapshots, BySecondsThereAreSome) {
  KeptWalk walk(2, 2);
  run(walk, {.folder = folder_ / "kept", .every_seconds = 1e-9});
  EXPECT_THAT(files(), ElementsAre("checkpoint-30"));
}

// Its state cannot be had from the second snapshot on.
struct ForgetfulWorker : public KeptWalkWorker {
  std::string snapshot() override {
    if (++asked > 1) throw Error(ErrorCode::kUnavailable, "nothing comes to mind");
    return KeptWalkWorker::snapshot();
  }
  int asked = 0;
};

TEST_F(TakenSnapshots, OneThatCannotBeTakenLeavesTheOneBefore) {
  KeptWalk walk(2, 1);
  EXPECT_THAT(told([&] { run<KeptWalk, ForgetfulWorker>(walk, kept()); }),
              HasSubstr("nothing comes to mind"));
  KeptWalk whole(2, 1), again(2, 1);
  run(whole, {.folder = folder_ / "other", .every = 4});
  run(again, {.folder = folder_ / "third", .every = 4, .resume = folder_ / "kept"});
  EXPECT_EQ(again.asked, kRounds + 1 - 4);
  EXPECT_EQ(again.place, whole.place);
}

TEST_F(TakenSnapshots, AProgramThatKeepsNoneIsToldBeforeItRuns) {
  Hurry hurry(1, 1);
  hurry.fails_at = 0;
  EXPECT_THAT(told([&] { run(hurry, kept()); }), HasSubstr("keeps no snapshots"));
}

}  // namespace
}  // namespace kerf::schedmp
