// Who is asked to end, or is to leave for another process, does so behind a snapshot where one can
// be had.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "tests/schedmp/kept_walk.h"

namespace kerf::schedmp {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class AskedSnapshots : public WalksThatKeepSnapshots {};

// R14: where rounds wait for each other anyway that is at once, else where one is due.
TEST_F(AskedSnapshots, WhoIsAskedToEndLeavesOneFromWhichTheSameBitsCome) {
  for (const auto& [depth, left] : {std::pair(1, 7), std::pair(3, 8)}) {
    std::filesystem::remove_all(folder_ / "kept");
    KeptWalk whole(2, depth), asked(2, depth), again(2, depth);
    run(whole, {.folder = folder_ / "whole", .every = 4});
    std::filesystem::remove_all(folder_ / "whole");
    asked.asked_to_end_at = 6;
    const auto error = tests::error_of([&] { run(asked, kept()); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kInterrupted);
    const std::string name = kerf::format("checkpoint-{}", left);
    EXPECT_THAT(error->message(), AllOf(HasSubstr("--resume"), HasSubstr(name)));
    EXPECT_THAT(files(), ElementsAre(name));
    EXPECT_FALSE(asked.interrupt->raised());
    SnapshotOptions options = kept();
    options.resume = options.folder;
    EXPECT_EQ(run(again, options).rounds, kRounds);
    EXPECT_EQ(again.asked, kRounds + 1 - left);
    EXPECT_EQ(again.place, whole.place);
  }
}

TEST_F(AskedSnapshots, WhoIsAskedToEndBehindTheLastRoundHasEnded) {
  KeptWalk walk(2, 3);
  walk.asked_to_end_at = kRounds;
  EXPECT_EQ(run(walk, kept()).rounds, kRounds);
}

TEST_F(AskedSnapshots, WhoLeavesForAnotherDoesSoBehindASnapshot) {
  KeptWalk whole(2, 2), leaves(2, 2), again(2, 2);
  run(whole, {.folder = folder_ / "whole", .every = 4});
  SnapshotOptions options = kept();
  options.worth_seconds = 60;  // of who is interrupted
  const auto crew = tests::inproc_crew(2, {{"walk", worker_half<KeptWalkWorker>}});
  EXPECT_THROW(schedmp::run(leaves, *crew,
                            {.snapshots = options, .leaves = [&] { return leaves.asked >= 10; }}),
               Left);
  EXPECT_THAT(files(), ElementsAre("checkpoint-12"));
  options.resume = options.folder;
  EXPECT_EQ(run(again, options).rounds, kRounds);
  EXPECT_EQ(again.asked, kRounds + 1 - 12);
  EXPECT_EQ(again.place, whole.place);
}

// It is asked again, once.
TEST_F(AskedSnapshots, WhoIsToLeaveStaysWhereNoneCanBeWritten) {
  KeptWalk whole(2, 2);
  run(whole, {.folder = folder_ / "whole", .every = 4});
  Hindered hindered(2, 2);
  const SnapshotOptions options = kept();
  hindered.folder = options.folder;
  int said = 0;
  const auto leaves = [&] { return hindered.asked >= 11 && said++ == 0; };
  const auto crew = tests::inproc_crew(2, {{"walk", worker_half<KeptWalkWorker>}});
  const LoopReport report = schedmp::run(hindered, *crew, {.snapshots = options, .leaves = leaves});
  crew->stop();
  EXPECT_EQ(report.rounds, kRounds);
  EXPECT_GT(said, 1) << "who is not asked again does not know that it stayed";
  EXPECT_EQ(report.snapshots.failed, 2);
  EXPECT_EQ(hindered.place, whole.place);
}

TEST_F(AskedSnapshots, WhoStayedMayLeaveLater) {
  KeptWalk whole(2, 2), again(2, 2);
  run(whole, {.folder = folder_ / "whole", .every = 4});
  Hindered hindered(2, 2);
  SnapshotOptions options = kept();
  hindered.folder = options.folder;
  bool said = false;
  const auto leaves = [&] {
    if (hindered.asked >= 21) return true;
    return hindered.asked >= 11 && !std::exchange(said, true);
  };
  const auto crew = tests::inproc_crew(2, {{"walk", worker_half<KeptWalkWorker>}});
  EXPECT_THROW(schedmp::run(hindered, *crew, {.snapshots = options, .leaves = leaves}), Left);
  EXPECT_TRUE(said);
  EXPECT_THAT(files(), ElementsAre("checkpoint-24"));
  options.resume = options.folder;
  EXPECT_EQ(run(again, options).rounds, kRounds);
  EXPECT_EQ(again.place, whole.place);
}

TEST_F(AskedSnapshots, WhoKeepsNoneOrTooSoonIsInterruptedAtOnce) {
  SnapshotOptions soon = kept();
  soon.worth_seconds = 60;
  for (const SnapshotOptions& options : {SnapshotOptions{}, soon}) {
    KeptWalk walk(2, 1);
    walk.asked_to_end_at = 6;
    run(walk, options);  // its crew does not listen
    EXPECT_TRUE(walk.interrupt->raised());
  }
}

// Who asked waits no longer.
struct Hastened : public KeptWalk {
  using KeptWalk::KeptWalk;
  Decision schedule(int64_t round) override {
    if (round == 9) interrupt->raise();
    return KeptWalk::schedule(round);
  }
};

TEST_F(AskedSnapshots, WhoCameToNoPlaceForOneInTimeSaysSo) {
  Hastened walk(2, 2);
  walk.asked_to_end_at = 6;
  runtime::CrewOptions options;
  options.workers = 2;
  options.transport = runtime::TransportKind::kInproc;
  options.handlers = handlers_of({{"walk", worker_half<KeptWalkWorker>}});
  options.interrupt = walk.interrupt;
  const auto crew = runtime::Crew::assemble(options);
  const auto error = tests::error_of(
      [&] { schedmp::run(walk, *crew, {.snapshots = kept(1000), .interrupt = walk.interrupt}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kInterrupted);
  EXPECT_THAT(error->message(), HasSubstr("interrupted; no checkpoint was written"));
}

}  // namespace
}  // namespace kerf::schedmp
