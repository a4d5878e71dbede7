// A program that ends somewhere goes on from its last snapshot to the same bits.
#include "schedmp/snapshots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "runtime/error.h"
#include "runtime/file.h"
#include "schedmp/memory_journal.h"
#include "schedmp/scheduler.h"
#include "tests/support/errors.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// By the error that `body` ends with.
template <class Body>
std::string told(const Body& body) {
  const auto error = tests::error_of(body);
  return error ? error->what() : "no error";
}

struct WalkMessages {
  using Job = int64_t;  // a seed
  using Task = uint64_t;
  using Result = uint64_t;
};

constexpr int64_t kRounds = 30;

// Each worker steps on from where it stands by what it is told, and is told what all have come to
// so far: whoever forgets anything ends elsewhere.
struct Walk : public SchedulerHalf<WalkMessages> {
  Walk(int of_workers, int of_depth, int64_t of_seed = 7)
      : workers(of_workers), declared(of_depth), seed(of_seed) {}
  std::string name() const override { return "walk"; }
  int depth() const override { return declared; }
  int64_t job(int worker) override { return seed + worker; }
  Decision schedule(int64_t round) override {
    ++asked;
    if (round == asked_to_end_at) interrupt->ask();
    if (round == fails_at) throw Error(ErrorCode::kUnavailable, "the light went out");
    if (round == kRounds) return Done{};
    std::vector<Task> tasks;
    for (int worker = 0; worker < workers; ++worker)
      tasks.push_back({worker, place + static_cast<uint64_t>(round)});
    return tasks;
  }
  void aggregate(int64_t /*round*/, std::vector<Result> results) override {
    for (const Result& each : results) place = place * 31 + each.payload;
  }
  std::string snapshot() override { return runtime::encode(place); }
  void restore(std::string_view snapshot) override { place = runtime::decode<uint64_t>(snapshot); }

  int workers, declared;
  int64_t seed;
  int64_t fails_at = -1;
  int64_t asked_to_end_at = -1;
  std::shared_ptr<runtime::Interrupt> interrupt = std::make_shared<runtime::Interrupt>();
  uint64_t place = 1;  // wraps around
  int64_t asked = 0;   // for a round
};

struct WalkWorker : public WorkerHalf<WalkMessages> {
  void start(runtime::Workplace& /*workplace*/, const int64_t& job) override {
    place = static_cast<uint64_t>(job);
  }
  uint64_t update(const uint64_t& task) override { return place = place * 17 + task; }
  std::string snapshot() override { return runtime::encode(place); }
  void restore(std::string_view snapshot) override { place = runtime::decode<uint64_t>(snapshot); }
  uint64_t place = 0;
};

// Its state cannot be had from the second snapshot on.
struct ForgetfulWorker : public WalkWorker {
  std::string snapshot() override {
    if (++asked > 1) throw Error(ErrorCode::kUnavailable, "nothing comes to mind");
    return WalkWorker::snapshot();
  }
  int asked = 0;
};

// It needs a file for what it takes.
struct ReadingWorker : public WalkWorker {
  void restore(std::string_view /*snapshot*/) override {
    throw Error(ErrorCode::kUsage, "expected a number", "data.mtx:7");
  }
};

struct Hurry : public Walk {
  using Walk::Walk;
  std::string name() const override { return "hurry"; }
  std::string snapshot() override { throw_no_snapshot(); }
};

class SnapshotsTest : public testing::Test {
 protected:
  template <class Program, class Worker = WalkWorker>
  static LoopReport run(Program& program, const SnapshotOptions& options) {
    const auto crew = tests::inproc_crew(program.workers, {{program.name(), worker_half<Worker>}});
    LoopReport report =
        schedmp::run(program, *crew, {.snapshots = options, .interrupt = program.interrupt});
    crew->stop();
    return report;
  }
  SnapshotOptions kept(int64_t every = 4) const {
    return {.folder = folder_ / "kept", .every = every};
  }
  // Ends in that round.
  void interrupt(int64_t round, Walk program = Walk(2, 2)) const {
    program.fails_at = round;
    std::filesystem::remove_all(folder_ / "kept");
    EXPECT_THAT(told([&] { run(program, kept()); }), HasSubstr("the light went out"));
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& each : std::filesystem::directory_iterator(folder_ / "kept"))
      names.push_back(each.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string resume_error(Walk program) const {
    return told([&] { run(program, {.resume = folder_ / "kept"}); });
  }

  tests::TemporaryFolder folder_;
};

TEST_F(SnapshotsTest, ARunThatGoesOnEndsWithTheSameBits) {
  for (const int workers : {1, 3})
    for (const int depth : {1, 2, 5}) {
      Walk whole(workers, depth);
      std::filesystem::remove_all(folder_ / "kept");
      EXPECT_EQ(run(whole, kept()).rounds, kRounds);
      EXPECT_EQ(whole.asked, kRounds + 1);
      for (const int64_t round : {5, 8, 9, 29}) {
        interrupt(round, Walk(workers, depth));
        Walk again(workers, depth);
        SnapshotOptions options = kept();
        options.resume = options.folder;
        EXPECT_EQ(run(again, options).rounds, kRounds);
        EXPECT_EQ(again.asked, kRounds + 1 - round / 4 * 4) << "not from the beginning";
        EXPECT_EQ(again.place, whole.place)
            << workers << " workers, depth " << depth << ", ended in round " << round;
      }
    }
}

TEST_F(SnapshotsTest, ThereIsOneAtATime) {
  interrupt(15);
  EXPECT_THAT(files(), ElementsAre("checkpoint-12"));
}

TEST_F(SnapshotsTest, AsManyAsAreToBeKept) {
  SnapshotOptions options = kept();
  options.keep = 3;
  Walk walk(2, 2);
  run(walk, options);
  EXPECT_THAT(files(), ElementsAre("checkpoint-20", "checkpoint-24", "checkpoint-28"));
}

// Its older ones serve, and those that are not whole go with the next.
TEST_F(SnapshotsTest, TheNewestThatIsWholeCounts) {
  SnapshotOptions options = kept();
  options.keep = 3;
  Walk walk(2, 2);
  run(walk, options);
  std::filesystem::remove(folder_ / "kept" / "checkpoint-28" / "manifest.json");
  runtime::write_file_atomic(folder_ / "kept" / "checkpoint-24" / "worker-1", "");
  std::string notes;
  options.resume = options.folder;
  options.tell = [&](const std::string& what) { notes += what; };
  Walk again(2, 2);
  run(again, options);
  EXPECT_EQ(again.place, walk.place);
  EXPECT_EQ(again.asked, kRounds + 1 - 20);
  EXPECT_THAT(notes, AllOf(HasSubstr("goes on from"), HasSubstr("checkpoint-24"),
                           HasSubstr("checkpoint-28")));
  EXPECT_THAT(files(), ElementsAre("checkpoint-20", "checkpoint-24", "checkpoint-28"));
}

// In some rounds its folder cannot be had: a file of that name is there.
struct Hindered : public Walk {
  using Walk::Walk;
  Decision schedule(int64_t round) override {
    if (round == 10 || (twice && round == 22)) {
      std::filesystem::rename(folder, folder.string() + "-away");
      runtime::write_file_atomic(folder, "");
    }
    if (round == 18 || (twice && round == 26)) {
      std::filesystem::remove(folder);
      std::filesystem::rename(folder.string() + "-away", folder);
    }
    return Walk::schedule(round);
  }
  std::filesystem::path folder;
  bool twice = false;
};

TEST_F(SnapshotsTest, OneThatCannotBeWrittenIsToldAndTheRunGoesOn) {
  for (const int workers : {1, 3}) {
    Walk undisturbed(workers, 2);
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

TEST_F(SnapshotsTest, WhereOthersHaveAFolderOfItsNameNoneIsWritten) {
  const std::filesystem::path others = folder_ / "kept" / "checkpoint-12";
  std::filesystem::create_directories(others);
  for (const char* name : {"manifest.json", "worker-0"})
    runtime::write_file_atomic(others / name, "of another trainer");
  std::vector<std::string> notes;
  SnapshotOptions options = kept();
  options.tell = [&](const std::string& what) { notes.push_back(what); };
  Walk walk(2, 2);
  EXPECT_EQ(run(walk, options).snapshots.failed, 1);
  EXPECT_THAT(notes, ElementsAre(AllOf(HasSubstr("checkpoint-12: "), HasSubstr("moved away"))));
  EXPECT_THAT(files(), ElementsAre("checkpoint-12", "checkpoint-28"));
  for (const char* name : {"manifest.json", "worker-0"})
    EXPECT_EQ(runtime::read_file(others / name), "of another trainer");
  EXPECT_FALSE(std::filesystem::exists(others / "worker-1"));
}

// Before the first is written, for which there may be no room otherwise.
TEST_F(SnapshotsTest, WhatWasNotFinishedGoesWhenTheNextRunBegins) {
  const std::filesystem::path begun = folder_ / "kept" / "checkpoint-40";
  std::filesystem::create_directories(begun);
  for (const char* name : {"scheduler", "worker-0", ".kerf-0123456789abcdef.tmp"})
    runtime::write_file_atomic(begun / name, "half of");
  Walk walk(2, 2);
  walk.fails_at = 1;
  EXPECT_THAT(told([&] { run(walk, kept()); }), HasSubstr("the light went out"));
  EXPECT_THAT(files(), ElementsAre());
}

TEST_F(SnapshotsTest, BySecondsThereAreSome) {
  Walk walk(2, 2);
  run(walk, {.folder = folder_ / "kept", .every_seconds = 1e-9});
  EXPECT_THAT(files(), ElementsAre("checkpoint-30"));
}

TEST_F(SnapshotsTest, OneThatCannotBeTakenLeavesTheOneBefore) {
  Walk walk(2, 1);
  EXPECT_THAT(told([&] { run<Walk, ForgetfulWorker>(walk, kept()); }),
              HasSubstr("nothing comes to mind"));
  Walk whole(2, 1), again(2, 1);
  run(whole, {.folder = folder_ / "other", .every = 4});
  run(again, {.folder = folder_ / "third", .every = 4, .resume = folder_ / "kept"});
  EXPECT_EQ(again.asked, kRounds + 1 - 4);
  EXPECT_EQ(again.place, whole.place);
}

// R14: where rounds wait for each other anyway that is at once, else where one is due.
TEST_F(SnapshotsTest, WhoIsAskedToEndLeavesOneFromWhichTheSameBitsCome) {
  for (const auto& [depth, left] : {std::pair(1, 7), std::pair(3, 8)}) {
    std::filesystem::remove_all(folder_ / "kept");
    Walk whole(2, depth), asked(2, depth), again(2, depth);
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

TEST_F(SnapshotsTest, WhoIsAskedToEndBehindTheLastRoundHasEnded) {
  Walk walk(2, 3);
  walk.asked_to_end_at = kRounds;
  EXPECT_EQ(run(walk, kept()).rounds, kRounds);
}

TEST_F(SnapshotsTest, WhoLeavesForAnotherDoesSoBehindASnapshot) {
  Walk whole(2, 2), leaves(2, 2), again(2, 2);
  run(whole, {.folder = folder_ / "whole", .every = 4});
  SnapshotOptions options = kept();
  options.worth_seconds = 60;  // of who is interrupted
  const auto crew = tests::inproc_crew(2, {{"walk", worker_half<WalkWorker>}});
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
TEST_F(SnapshotsTest, WhoIsToLeaveStaysWhereNoneCanBeWritten) {
  Walk whole(2, 2);
  run(whole, {.folder = folder_ / "whole", .every = 4});
  Hindered hindered(2, 2);
  const SnapshotOptions options = kept();
  hindered.folder = options.folder;
  int said = 0;
  const auto leaves = [&] { return hindered.asked >= 11 && said++ == 0; };
  const auto crew = tests::inproc_crew(2, {{"walk", worker_half<WalkWorker>}});
  const LoopReport report = schedmp::run(hindered, *crew, {.snapshots = options, .leaves = leaves});
  crew->stop();
  EXPECT_EQ(report.rounds, kRounds);
  EXPECT_GT(said, 1) << "who is not asked again does not know that it stayed";
  EXPECT_EQ(report.snapshots.failed, 2);
  EXPECT_EQ(hindered.place, whole.place);
}

TEST_F(SnapshotsTest, WhoStayedMayLeaveLater) {
  Walk whole(2, 2), again(2, 2);
  run(whole, {.folder = folder_ / "whole", .every = 4});
  Hindered hindered(2, 2);
  SnapshotOptions options = kept();
  hindered.folder = options.folder;
  bool said = false;
  const auto leaves = [&] {
    if (hindered.asked >= 21) return true;
    return hindered.asked >= 11 && !std::exchange(said, true);
  };
  const auto crew = tests::inproc_crew(2, {{"walk", worker_half<WalkWorker>}});
  EXPECT_THROW(schedmp::run(hindered, *crew, {.snapshots = options, .leaves = leaves}), Left);
  EXPECT_TRUE(said);
  EXPECT_THAT(files(), ElementsAre("checkpoint-24"));
  options.resume = options.folder;
  EXPECT_EQ(run(again, options).rounds, kRounds);
  EXPECT_EQ(again.place, whole.place);
}

TEST_F(SnapshotsTest, WhoKeepsNoneOrTooSoonIsInterruptedAtOnce) {
  SnapshotOptions soon = kept();
  soon.worth_seconds = 60;
  for (const SnapshotOptions& options : {SnapshotOptions{}, soon}) {
    Walk walk(2, 1);
    walk.asked_to_end_at = 6;
    run(walk, options);  // its crew does not listen
    EXPECT_TRUE(walk.interrupt->raised());
  }
}

// Who asked waits no longer.
struct Hastened : public Walk {
  using Walk::Walk;
  Decision schedule(int64_t round) override {
    if (round == 9) interrupt->raise();
    return Walk::schedule(round);
  }
};

TEST_F(SnapshotsTest, WhoCameToNoPlaceForOneInTimeSaysSo) {
  Hastened walk(2, 2);
  walk.asked_to_end_at = 6;
  runtime::CrewOptions options;
  options.workers = 2;
  options.transport = runtime::TransportKind::kInproc;
  options.handlers = handlers_of({{"walk", worker_half<WalkWorker>}});
  options.interrupt = walk.interrupt;
  const auto crew = runtime::Crew::assemble(options);
  const auto error = tests::error_of(
      [&] { schedmp::run(walk, *crew, {.snapshots = kept(1000), .interrupt = walk.interrupt}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kInterrupted);
  EXPECT_THAT(error->message(), HasSubstr("interrupted; no checkpoint was written"));
}

TEST_F(SnapshotsTest, AProgramThatKeepsNoneIsToldBeforeItRuns) {
  Hurry hurry(1, 1);
  hurry.fails_at = 0;
  EXPECT_THAT(told([&] { run(hurry, kept()); }), HasSubstr("keeps no snapshots"));
}

// ---- what is refused

TEST_F(SnapshotsTest, WhatIsThereIsNotLost) {
  interrupt(9);
  std::filesystem::create_directories(folder_ / "kept" / "round-trip");
  Walk other(2, 2);
  EXPECT_THAT(told([&] { run(other, kept()); }),
              AllOf(HasSubstr("kept"), HasSubstr("checkpoints of another run")));
  EXPECT_THAT(files(), ElementsAre("checkpoint-8", "round-trip"));
  SnapshotOptions options = kept();
  options.resume = options.folder;
  Walk again(2, 2);
  run(again, options);
  EXPECT_THAT(files(), ElementsAre("checkpoint-28", "round-trip"));
}

// A journal of what a run before kept in memory, which nobody came for in time.
TEST_F(SnapshotsTest, WhatSaysWhereAGoneMemoryWasGoesWithTheFirst) {
  const std::filesystem::path folder = folder_ / "kept";
  std::filesystem::create_directories(folder);
  keep_memory_journal(folder, {"/dev/shm/kerf-kept-00000000000000000000000000000000", this_boot()});
  Walk walk(2, 2);
  run(walk, kept());
  EXPECT_THAT(files(), ElementsAre("checkpoint-28"));
}

TEST_F(SnapshotsTest, OneRunAtATimeWritesIntoAFolder) {
  auto lock = lock_folder(folder_ / "kept");
  Walk walk(2, 2);
  EXPECT_THAT(told([&] { run(walk, kept()); }),
              AllOf(HasSubstr("kept"), HasSubstr("another run has its checkpoints in it now")));
  SnapshotOptions options = kept();
  options.lock = lock;
  run(walk, options);
  EXPECT_THAT(files(), ElementsAre(".kerf-lock", "checkpoint-28"));
}

TEST_F(SnapshotsTest, OfARunThatHadOtherFlagsIsRefused) {
  SnapshotOptions options = kept();
  options.run = {{"--lambda", "0.5"}};
  Walk walk(2, 2);
  run(walk, options);
  Walk again(2, 2);
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

TEST_F(SnapshotsTest, OfAnotherRunIsRefused) {
  interrupt(9);
  EXPECT_THAT(resume_error(Walk(3, 2)), HasSubstr("it is of 2 workers, and this run has 3"));
  EXPECT_THAT(resume_error(Walk(2, 2, 8)), HasSubstr("told something else"));
  Hurry hurry(2, 2);
  EXPECT_THAT(told([&] { run(hurry, {.resume = folder_ / "kept"}); }),
              AllOf(HasSubstr("checkpoint-8"), HasSubstr("of the program walk, not hurry")));
}

TEST_F(SnapshotsTest, ThatWasChangedIsRefusedWithItsFile) {
  interrupt(9);
  for (const char* part : {"checkpoint-8/scheduler", "checkpoint-8/worker-1"}) {
    const std::filesystem::path file = folder_ / "kept" / part;
    const std::string bytes = runtime::read_file(file);
    std::string changed = bytes;
    changed[3] ^= 4;
    for (const std::string& wrong : {changed, bytes + "x", std::string()}) {
      runtime::write_file_atomic(file, wrong);
      EXPECT_THAT(resume_error(Walk(2, 2)),
                  AllOf(HasSubstr(part), HasSubstr("not what its run wrote")));
    }
    std::filesystem::remove(file);
    EXPECT_THAT(resume_error(Walk(2, 2)), HasSubstr(part));
    runtime::write_file_atomic(file, bytes);
  }
  Walk again(2, 2);
  run(again, {.resume = folder_ / "kept"});
  EXPECT_EQ(again.asked, kRounds + 1 - 8) << "as it was";
}

// What a half reads beside it has a place of its own.
TEST_F(SnapshotsTest, WhatAHalfMissesElsewhereIsNamedToo) {
  interrupt(6);
  Walk program(2, 2);
  EXPECT_THAT(told([&] { run<Walk, ReadingWorker>(program, {.resume = folder_ / "kept"}); }),
              AllOf(HasSubstr("worker-"), HasSubstr("data.mtx:7: expected a number")));
}

TEST_F(SnapshotsTest, OfAnOlderVersionIsRefusedByName) {
  std::filesystem::create_directories(folder_ / "kept");
  runtime::write_file_atomic(folder_ / "kept" / "snapshot.json", "{\"kerf_snapshot\": 1}");
  EXPECT_THAT(resume_error(Walk(2, 2)),
              AllOf(HasSubstr("snapshot.json"), HasSubstr("an older version")));
}

TEST_F(SnapshotsTest, AManifestThatIsNoneIsRefused) {
  EXPECT_THAT(resume_error(Walk(2, 2)), HasSubstr("there is no checkpoint in it"));
  interrupt(9);
  const std::filesystem::path file = folder_ / "kept" / "checkpoint-8" / "manifest.json";
  const std::string text = runtime::read_file(file);
  for (const std::string& wrong :
       {std::string("{"), std::string("{}"), std::string("[]"),
        std::string(text).replace(text.find("\"round\": 8"), 10, "\"round\": -8"),
        std::string(text).replace(text.find("worker-1"), 8, "worker-9")}) {
    runtime::write_file_atomic(file, wrong);
    EXPECT_THAT(resume_error(Walk(2, 2)), HasSubstr("manifest.json")) << wrong;
  }
}

}  // namespace
}  // namespace kerf::schedmp
