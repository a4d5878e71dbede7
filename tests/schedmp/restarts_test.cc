// A run whose workers are killed ends with the bits of one that nobody disturbed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "schedmp/checkpoint_folder.h"
#include "tests/schedmp/restarting.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp {
namespace {

using namespace std::chrono_literals;
using runtime::TransportKind;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

class RestartsOver : public testing::TestWithParam<TransportKind> {};

TEST_P(RestartsOver, EndWithTheSameBitsWhoeverIsKilledWhenever) {
  std::minstd_rand random(static_cast<unsigned>(GetParam()) + 1);
  for (const RingOptions& options :
       {RingOptions{}, RingOptions{.workers = 2, .depth = 1}, RingOptions{.workers = 1}}) {
    const auto crew = crew_of(options.workers, GetParam());
    Ring program(options, [&](int64_t round) {
      std::this_thread::sleep_for(2ms);
      if (round % 20 == 10)
        kill_worker(*crew, static_cast<int>(random() % static_cast<unsigned>(options.workers)));
    });
    std::vector<int64_t> begun_before;
    const LoopReport report = run(program, *crew, restarting(&begun_before));
    crew->stop();
    EXPECT_EQ(program.place(), undisturbed(options));
    program.expect_once_a_round();
    EXPECT_EQ(report.restarts, 3);
    EXPECT_EQ(report.rounds, options.rounds);
    EXPECT_GT(begun_before.at(0), 0) << "nothing was kept";
  }
}

TEST_P(RestartsOver, WithoutStateBeginFromTheFirstRound) {
  const RingOptions options{.rounds = 20, .keeps_state = false};
  const auto crew = crew_of(options.workers, GetParam());
  Ring program(options, [&](int64_t round) {
    if (round == 12) kill_worker(*crew, 1);
  });
  std::vector<int64_t> begun_before;
  const LoopReport report = run(program, *crew, restarting(&begun_before));
  crew->stop();
  EXPECT_EQ(program.place(), undisturbed(options));
  program.expect_once_a_round();
  EXPECT_EQ(begun_before, std::vector<int64_t>{0});
  // Of rounds before the twelfth all but those under way were folded in, and all are done again.
  EXPECT_GE(program.compared(), options.workers * (12 - options.depth));
  EXPECT_EQ(report.repeated_tasks, program.compared());
  // What was thrown away is what is done again, as nobody was lost meanwhile.
  ASSERT_EQ(report.recoveries.size(), 1u);
  const Recovery& recovery = report.recoveries[0];
  EXPECT_EQ(recovery.answered, report.repeated_tasks);
  EXPECT_LE(recovery.unanswered, options.workers * options.depth);
  EXPECT_EQ(recovery.worker, 1);
  EXPECT_EQ(recovery.why.find('\n'), std::string::npos);
  EXPECT_EQ(recovery.round, 0);
  EXPECT_GE(recovery.reached, 12 - options.depth);
  EXPECT_GT(recovery.end_ns, recovery.begin_ns);
}

TEST(Restarts, AreSpansOfATraceWithWhoWasLost) {
  const RingOptions options;
  const auto crew = crew_of(options.workers, TransportKind::kShm);
  Ring program(options, [&](int64_t round) {
    std::this_thread::sleep_for(2ms);
    if (round == 30) kill_worker(*crew, 2);
  });
  const LoopReport report = run(program, *crew, restarting());
  crew->stop();
  int64_t restarts = 0, commits = 0;
  for (const runtime::Span& span : report.spans) {
    EXPECT_LE(span.begin_ns, span.end_ns);
    if (span.lane == runtime::TraceRow::kSaves) {
      ++commits;
      EXPECT_TRUE(span.name.starts_with("commit before round ")) << span.name;
      continue;
    }
    ++restarts;
    EXPECT_EQ(span.lane, runtime::TraceRow::kRestarts);
    EXPECT_TRUE(span.name.starts_with("restart before round ")) << span.name;
    EXPECT_NE(span.name.find("worker 2"), std::string::npos) << span.name;
    EXPECT_NE(span.name.find("signal 9"), std::string::npos) << span.name;
  }
  EXPECT_EQ(restarts, 1);
  EXPECT_EQ(commits, report.commits.taken);
  EXPECT_GT(commits, 0);
  EXPECT_EQ(report.spans_lost, 0);
}

TEST_P(RestartsOver, SeveralAtOnceAreOneLoss) {
  const RingOptions options;
  const auto crew = crew_of(options.workers, GetParam());
  Ring program(options, [&](int64_t round) {
    if (round == 30)
      for (int worker = 0; worker < options.workers; ++worker) kill_worker(*crew, worker);
  });
  const LoopReport report = run(program, *crew, restarting());
  crew->stop();
  EXPECT_EQ(program.place(), undisturbed(options));
  EXPECT_EQ(report.restarts, 1);
}

INSTANTIATE_TEST_SUITE_P(Transports, RestartsOver,
                         testing::Values(TransportKind::kShm, TransportKind::kIpc,
                                         TransportKind::kTcp),
                         [](const auto& each) { return std::string(to_string(each.param)); });

// By time nothing would be kept. With as many rounds under way as that, a round is scheduled before
// what is kept before the one ahead of it.
TEST(Restarts, NoMoreThanSoManyRoundsAreDoneAgain) {
  const RingOptions options;
  for (const int64_t every : {1, 2, 4}) {
    const auto crew = crew_of(options.workers, TransportKind::kShm);
    Ring program(options, [&](int64_t round) {
      if (round % 20 == 10) kill_worker(*crew, static_cast<int>(round / 20));
    });
    std::vector<int64_t> begun_before;
    LoopOptions how = restarting(&begun_before, std::chrono::hours(1));
    how.restarts.commit_steps = every;
    const LoopReport report = run(program, *crew, how);
    crew->stop();
    EXPECT_EQ(program.place(), undisturbed(options));
    program.expect_once_a_round();
    ASSERT_EQ(begun_before.size(), 3u);
    for (size_t i = 0; i < begun_before.size(); ++i) {
      EXPECT_EQ(begun_before[i] % every, 0);
      EXPECT_GT(begun_before[i], static_cast<int64_t>(20 * i) + 10 - options.depth - every);
    }
    EXPECT_LE(report.repeated_tasks, 3 * every * options.workers);
  }
}

TEST(Restarts, WhereKeepingEverySoManyRoundsKillsItIsTriedLessAndLess) {
  const RingOptions options{.workers = 2};
  const auto crew = crew_of(options.workers, TransportKind::kShm);
  Named program("full", options);
  std::vector<int64_t> begun_before;
  LoopOptions how = restarting(&begun_before);
  how.restarts.commit_steps = 1;
  run(program, *crew, how);
  crew->stop();
  EXPECT_EQ(program.place(), undisturbed(options));
  // Before the first round but one, once more there, and before the eleventh behind.
  EXPECT_THAT(begun_before, testing::ElementsAre(0, 0, 0));
}

TEST(Restarts, GoOnWithTheRowsOfTables) {
  const RingOptions options;
  Sharing undisturbed_program(options);
  {
    const auto crew = crew_of(options.workers, TransportKind::kShm);
    run(undisturbed_program, *crew);
    crew->stop();
  }
  const auto crew = crew_of(options.workers, TransportKind::kShm);
  Sharing program(options, [&](int64_t round) {
    std::this_thread::sleep_for(2ms);
    if (round % 20 == 10) kill_worker(*crew, 1);
  });
  std::vector<int64_t> begun_before;
  run(program, *crew, restarting(&begun_before));
  crew->stop();
  EXPECT_EQ(program.place(), undisturbed_program.place());
  EXPECT_EQ(begun_before.size(), 3u);
  EXPECT_GT(begun_before.at(2), 0) << "nothing was kept";
}

TEST(Restarts, AWorkerThatDiesInTheLastRoundOrBeforeTheFirstIsReplaced) {
  const RingOptions options{.workers = 2};
  for (const int64_t when : {int64_t{0}, options.rounds - 1}) {
    const auto crew = crew_of(options.workers, TransportKind::kIpc);
    Ring program(options, [&](int64_t round) {
      if (round == when) kill_worker(*crew, 1);
    });
    const LoopReport report = run(program, *crew, restarting());
    crew->stop();
    EXPECT_EQ(program.place(), undisturbed(options));
    EXPECT_EQ(report.restarts, 1);
  }
}

// Kills a worker before any has its job.
class EarlyLoss : public Ring {
 public:
  EarlyLoss(const RingOptions& options, runtime::Crew& crew) : Ring(options), crew_(crew) {}
  int64_t job(int worker) override {
    if (worker == 1) kill_worker(crew_, 1);
    return Ring::job(worker);
  }

 private:
  runtime::Crew& crew_;
};

TEST(Restarts, AWorkerThatDiesWhileAllStartIsReplaced) {
  const RingOptions options;
  const auto crew = crew_of(options.workers, TransportKind::kShm);
  EarlyLoss program(options, *crew);
  const LoopReport report = run(program, *crew, restarting());
  crew->stop();
  EXPECT_EQ(program.place(), undisturbed(options));
  EXPECT_EQ(report.restarts, 1);
}

TEST(Restarts, AWorkerThatDiesWhileAllGoOnFromASnapshotIsToldOfWithTheRoundOfThat) {
  const RingOptions options;
  const tests::TemporaryFolder folder;
  Ring whole(options);
  {
    const auto crew = crew_of(options.workers, TransportKind::kShm);
    run(whole, *crew, {.snapshots = {.folder = folder.path(), .every = 25}});
  }
  const auto crew = crew_of(options.workers, TransportKind::kShm);
  EarlyLoss program(options, *crew);
  std::vector<int64_t> begun_before;
  LoopOptions resuming = restarting(&begun_before);
  resuming.snapshots.resume = folder.path();
  run(program, *crew, resuming);
  crew->stop();
  EXPECT_EQ(program.place(), whole.place());
  EXPECT_EQ(begun_before, std::vector<int64_t>{50});
}

// Nobody goes on from it any more.
TEST(Restarts, WhatWasCommittedIsGivenBackBehindASnapshot) {
  const RingOptions options{.workers = 2};
  const tests::TemporaryFolder folder;
  const auto crew = crew_of(options.workers, TransportKind::kShm);
  const auto committed = [&] {
    uintmax_t bytes = 0;
    for (int worker = 0; worker < options.workers; ++worker)
      for (const int which : {0, 1})
        bytes += std::filesystem::file_size(crew->kept_file(worker, which));
    return bytes;
  };
  uintmax_t before = 0, behind = 1;
  Ring program(options, [&](int64_t round) {
    std::this_thread::sleep_for(2ms);
    if (round == 39) before = committed();
    if (round == 40) behind = committed();
  });
  LoopOptions how = restarting();
  how.snapshots = {.folder = folder.path(), .every = 40};
  run(program, *crew, how);
  crew->stop();
  EXPECT_GT(before, 0u);
  EXPECT_EQ(behind, 0u);
}

TEST(Restarts, WhereKeepingKillsItIsTriedLessAndLess) {
  const RingOptions options{.workers = 2};
  const auto crew = crew_of(options.workers, TransportKind::kShm);
  Named program("full", options, [](int64_t) { std::this_thread::sleep_for(2ms); });
  std::vector<int64_t> begun_before;
  run(program, *crew, restarting(&begun_before));
  crew->stop();
  EXPECT_EQ(program.place(), undisturbed(options));
  // By and by they come later.
  EXPECT_THAT(begun_before, AllOf(testing::SizeIs(testing::Le(3)), Each(0)));
  EXPECT_FALSE(begun_before.empty());
}

TEST(Restarts, WhereNothingCanBeKeptThatIsToldAndTriedAgain) {
  for (const char* name : {"cramped", "cramped once"}) {
    const RingOptions options{.workers = 2};
    const auto crew = crew_of(2, TransportKind::kShm);
    Named program(name, options, [&](int64_t round) {
      std::this_thread::sleep_for(2ms);
      if (round == options.rounds - 1) kill_worker(*crew, 0);
    });
    std::vector<int64_t> begun_before;
    std::vector<std::string> told;
    LoopOptions how = restarting(&begun_before);
    how.restarts.tell = [&](const std::string& what) { told.push_back(what); };
    run(program, *crew, how);
    EXPECT_EQ(program.place(), undisturbed(options));
    EXPECT_THAT(told, testing::ElementsAre(AllOf(HasSubstr("what workers hold cannot be kept"),
                                                 HasSubstr("before round 0"),
                                                 HasSubstr("File too large"))));
    if (std::string_view(name) == "cramped")
      EXPECT_THAT(begun_before, testing::ElementsAre(0));
    else
      EXPECT_THAT(begun_before, testing::ElementsAre(testing::Gt(0)));
  }
}

// Of workers that die within checkpoints alone.
class LossesWithinCheckpoints : public testing::Test {
 protected:
  LossesWithinCheckpoints() {
    std::filesystem::create_directory(folder_ / "once");
    ::setenv("KERF_TEST_ONCE", (folder_ / "once").c_str(), 1);
    how_.restarts.keeps = false;
    how_.snapshots = {.folder = folder_ / "kept", .every = 15};
  }
  ~LossesWithinCheckpoints() override { ::unsetenv("KERF_TEST_ONCE"); }
  std::optional<Error> run_of(Named& program) {
    const auto crew = crew_of(options_.workers, TransportKind::kShm);
    auto error = tests::error_of([&] { report_ = run(program, *crew, how_); });
    if (!error) crew->stop();
    return error;
  }

  tests::TemporaryFolder folder_;
  const RingOptions options_{.workers = 2};
  std::vector<int64_t> begun_before_;
  LoopOptions how_ = restarting(&begun_before_);
  LoopReport report_;
};

// Before rounds 15, 30, 45 and 60, one or two losses each.
TEST_F(LossesWithinCheckpoints, AreOfDifferentRounds) {
  Named program("mortal", options_);
  const auto error = run_of(program);
  ASSERT_FALSE(error) << error->what();
  Ring whole(options_);
  run(whole, *crew_of(options_.workers, TransportKind::kInproc),
      {.snapshots = {.folder = folder_ / "whole", .every = 15}});
  EXPECT_EQ(program.place(), whole.place());
  EXPECT_EQ(report_.snapshots.taken, 4);
  EXPECT_GE(begun_before_.size(), 4);
  EXPECT_THAT(begun_before_, testing::IsSupersetOf({0, 15, 30, 45}));
}

// What came to other bits when it was done again is in no checkpoint.
TEST_F(LossesWithinCheckpoints, WhatDiffersIsNotKept) {
  Named program("fickle and mortal", options_);
  const auto error = run_of(program);
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("came to"));
  EXPECT_FALSE(has_checkpoints(folder_ / "kept"));
}

int64_t descriptors() {
  int64_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
    count += each.path().empty() ? 0 : 1;
  return count;
}

TEST(Restarts, LeaveNothingBehind) {
  const RingOptions options{.workers = 2, .rounds = 100};
  const auto crew = crew_of(options.workers, TransportKind::kShm);
  int64_t behind_first = 0;
  Ring program(options, [&](int64_t round) {
    if (round % 20 == 15) kill_worker(*crew, 0);
    if (round == 30) behind_first = descriptors();
  });
  run(program, *crew, restarting());
  EXPECT_LE(descriptors(), behind_first + 2) << "more with each restart";
  crew->stop();
}

TEST(Restarts, AStoppedWorkerIsReplacedAndCannotGoOn) {
  const RingOptions options;
  const auto crew = crew_of(options.workers, TransportKind::kShm);
  int stopped = 0;
  bool went_on = true;
  Ring program(options, [&](int64_t round) {
    if (round == 20) ::kill(stopped = crew->workers()[2].pid, SIGSTOP);
    if (round == 40) went_on = ::kill(stopped, SIGCONT) == 0;
  });
  run(program, *crew, restarting());
  crew->stop();
  EXPECT_EQ(program.place(), undisturbed(options));
  EXPECT_FALSE(went_on);
}

}  // namespace
}  // namespace kerf::schedmp

int main(int argc, char** argv) {
  if (const auto code = kerf::schedmp::serve_if_worker(argc, argv, kerf::schedmp::kPrograms))
    return *code;
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
