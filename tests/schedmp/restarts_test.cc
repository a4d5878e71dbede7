// A run whose workers are killed ends with the bits of one that nobody disturbed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "runtime/process.h"
#include "schedmp/encoded_program.h"
#include "schedmp/scheduler.h"
#include "schedmp/state.h"
#include "schedmp/tables/tables.h"
#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

using namespace std::chrono_literals;
using runtime::TransportKind;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

struct RingTask {
  uint64_t told = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(told);
  }
};
struct RingMessages {
  using Job = int64_t;  // a seed
  using Task = RingTask;
  using Result = uint64_t;
};

// In each round every worker sends where it stands to the next one, takes in what it was sent in
// the same round, and steps on by both and by what it is told.
class RingWorker : public KeepsState<RingWorker, WorkerHalf<RingMessages>> {
 public:
  void start(runtime::Workplace& workplace, const int64_t& job) override {
    workplace_ = &workplace;
    place_ = static_cast<uint64_t>(job) + static_cast<uint64_t>(workplace.worker);
  }
  uint64_t update(const RingTask& task) override {
    const int workers = workplace_->workers;
    if (workers > 1) {
      send((workplace_->worker + 1) % workers);
      receive((workplace_->worker + workers - 1) % workers);
    }
    return place_ = place_ * 17 + task.told;
  }
  template <class Archive>
  void state(Archive& archive) {
    archive(place_);
  }

 private:
  void send(int to) {
    runtime::SendChannel& channel = workplace_->endpoint.sender(to);
    const auto slot = channel.acquire(0, sizeof place_, runtime::after(20s));
    ASSERT_TRUE(slot);
    std::copy_n(reinterpret_cast<const std::byte*>(&place_), sizeof place_, slot->data);
    channel.commit(*slot, {});
  }
  void receive(int from) {
    runtime::ReceiveChannel& channel = workplace_->endpoint.receiver(from);
    const auto view = channel.receive(runtime::after(20s));
    ASSERT_TRUE(view);
    uint64_t sent = 0;
    std::copy_n(view->data, sizeof sent, reinterpret_cast<std::byte*>(&sent));
    channel.release(*view);
    place_ = place_ * 31 + sent;
  }

  runtime::Workplace* workplace_ = nullptr;
  uint64_t place_ = 0;
};

struct RingOptions {
  int workers = 3;
  int64_t rounds = 60;
  int depth = 3;
  bool keeps_state = true;
};

// Kills workers before rounds, as it is told.
class Ring : public SchedulerHalf<RingMessages> {
 public:
  using Kill = std::function<void(int64_t round)>;
  explicit Ring(const RingOptions& options, Kill kill = {})
      : options_(options), kill_(std::move(kill)) {}

  std::string name() const override { return "ring"; }
  int64_t job(int) override { return 5; }
  int depth() const override { return options_.depth; }
  LaneTable lanes(int workers) const override {
    LaneTable lanes = no_lanes(workers);
    for (int worker = 0; worker < workers && workers > 1; ++worker)
      lanes[static_cast<size_t>(worker)][static_cast<size_t>((worker + 1) % workers)] = {{64, 2}};
    return lanes;
  }
  Decision schedule(int64_t round) override {
    ++scheduled_[round];
    if (round == options_.rounds) return Done{};
    if (kill_) kill_(round);
    std::vector<Task> tasks;
    for (int worker = 0; worker < options_.workers; ++worker)
      tasks.push_back({worker, {place_ + static_cast<uint64_t>(round)}});
    return tasks;
  }
  void aggregate(int64_t round, std::vector<Result> results) override {
    ++aggregated_[round];
    for (const Result& each : results) place_ = place_ * 31 + each.payload;
  }
  void compare(int64_t round, const Result& first, const Result& again) override {
    ++compared_;
    if (first.payload != again.payload)
      throw Error(ErrorCode::kInternal, kerf::format("round {} came to {} and then to {}", round,
                                                     first.payload, again.payload));
  }
  bool keeps_state() const override { return options_.keeps_state; }
  std::string snapshot() override { return runtime::encode(place_); }

  uint64_t place() const { return place_; }
  int64_t compared() const { return compared_; }
  std::vector<int64_t> times(const std::map<int64_t, int64_t>& counts) const {
    std::vector<int64_t> times;
    for (const auto& [round, count] : counts) times.push_back(count);
    return times;
  }
  void expect_once_a_round() const {
    EXPECT_EQ(std::ssize(scheduled_), options_.rounds + 1);
    EXPECT_EQ(std::ssize(aggregated_), options_.rounds);
    EXPECT_THAT(times(scheduled_), Each(1));
    EXPECT_THAT(times(aggregated_), Each(1));
  }

 private:
  RingOptions options_;
  Kill kill_;
  uint64_t place_ = 1;
  int64_t compared_ = 0;
  std::map<int64_t, int64_t> scheduled_;
  std::map<int64_t, int64_t> aggregated_;
};

// Dies of its third task, whoever it is.
class FrailWorker : public RingWorker {
 public:
  uint64_t update(const RingTask& task) override {
    if (++tasks_ == 3) ::kill(::getpid(), SIGKILL);
    return RingWorker::update(task);
  }

 private:
  int tasks_ = 0;
};

// Comes to something else whenever it is another process.
class FickleWorker : public RingWorker {
 public:
  uint64_t update(const RingTask& task) override {
    return RingWorker::update(task) + static_cast<uint64_t>(::getpid());
  }
};

// Dies of keeping what it holds.
class FullWorker : public RingWorker {
 public:
  std::string snapshot() override {
    ::kill(::getpid(), SIGKILL);
    return {};
  }
};

// Adds to rows that all share, and reads them, clock by clock.
class SharingWorker : public KeepsState<SharingWorker, WorkerHalf<RingMessages>> {
 public:
  void start(runtime::Workplace& workplace, const int64_t&) override { worker_ = workplace.worker; }
  uint64_t update(const RingTask& task) override {
    Table& table = tables().at(0);
    const auto rows = static_cast<size_t>(table.spec().rows);
    std::vector<float> change(rows, static_cast<float>((task.told + 1) % 7) + 0.25F);
    change[static_cast<size_t>(worker_) % rows] += 1;
    table.add({{0, table.spec().rows}}, change);
    table.clock();
    std::vector<float> values(rows);
    table.read({{0, table.spec().rows}}, values);
    for (const float value : values) seen_ = seen_ * 31 + std::bit_cast<uint32_t>(value);
    return seen_;
  }
  template <class Archive>
  void state(Archive& archive) {
    archive(seen_);
  }

 private:
  int worker_ = 0;
  uint64_t seen_ = 0;
};

// Fails by itself.
class FailingWorker : public RingWorker {
 public:
  uint64_t update(const RingTask&) override {
    throw Error(ErrorCode::kUnavailable, "the light went out");
  }
};

const ProgramFactories kPrograms{
    {"ring", worker_half<RingWorker>},     {"frail", worker_half<FrailWorker>},
    {"fickle", worker_half<FickleWorker>}, {"failing", worker_half<FailingWorker>},
    {"full", worker_half<FullWorker>},     {"sharing", worker_half<SharingWorker>}};

class Named : public Ring {
 public:
  Named(std::string name, const RingOptions& options, Kill kill = {})
      : Ring(options, std::move(kill)), name_(std::move(name)) {}
  std::string name() const override { return name_; }

 private:
  std::string name_;
};

std::unique_ptr<runtime::Crew> crew_of(int workers, TransportKind transport) {
  runtime::CrewOptions options;
  options.workers = workers;
  options.transport = transport;
  options.handlers = handlers_of(kPrograms);
  options.worker_command = {runtime::program_path(), "worker"};
  options.identity = identity();
  return runtime::Crew::assemble(options);
}

LoopOptions restarting(std::vector<int64_t>* begun_before = nullptr,
                       std::chrono::milliseconds commit_every = 1ms) {
  LoopOptions options;
  options.restarts.allowed = true;
  options.restarts.commit_every = commit_every;
  if (begun_before != nullptr)
    options.restarts.lost = [=](const Error& loss, int64_t round) {
      EXPECT_EQ(loss.code(), ErrorCode::kLost);
      begun_before->push_back(round);
    };
  return options;
}

uint64_t undisturbed(const RingOptions& options) {
  const auto crew = crew_of(options.workers, TransportKind::kInproc);
  Ring program(options);
  run(program, *crew);
  crew->stop();
  return program.place();
}

void kill_worker(const runtime::Crew& crew, int worker) {
  ::kill(crew.workers()[static_cast<size_t>(worker)].pid, SIGKILL);
}

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

// A program that has another name, and a table.
class Sharing : public Named {
 public:
  explicit Sharing(const RingOptions& options, Kill kill = {})
      : Named("sharing", options, std::move(kill)) {}
  std::vector<TableSpec> tables(int) override { return {{.name = "values", .rows = 5}}; }
  LaneTable lanes(int workers) const override { return no_lanes(workers); }
};

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

TEST(Restarts, WhatDiesOfTheSameTaskThreeTimesEndsTheRunWithTheFirstCause) {
  const RingOptions options{.workers = 2, .rounds = 10};
  const auto crew = crew_of(options.workers, TransportKind::kIpc);
  Named program("frail", options);
  std::vector<int64_t> begun_before;
  const auto error = tests::error_of([&] { run(program, *crew, restarting(&begun_before, 10s)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kLost);
  EXPECT_THAT(error->what(),
              AllOf(HasSubstr("signal 9 (Killed)"), HasSubstr("2 losses in the same round since")));
  // The first may come before results of the rounds before that task, or be met while all begin.
  EXPECT_THAT(begun_before.size(), AllOf(testing::Ge(2u), testing::Le(12u)));
}

// Kills a worker of each crew that begins again, before it has registered.
LoopOptions killing_replacements(const runtime::Crew& crew, int times) {
  LoopOptions options = restarting();
  options.restarts.waiting = [&crew, times](int here, const std::string&) mutable {
    if (here == 0 && times-- > 0) kill_worker(crew, 1);
  };
  return options;
}

TEST(Restarts, WhoDiesBeforeItHasItsTasksDoesNotDieOfThem) {
  const RingOptions options{.workers = 2};
  const auto crew = crew_of(options.workers, TransportKind::kIpc);
  Ring program(options, [&](int64_t round) {
    if (round == 20) kill_worker(*crew, 0);
  });
  const LoopReport report = run(program, *crew, killing_replacements(*crew, 2));
  crew->stop();
  EXPECT_EQ(program.place(), undisturbed(options));
  EXPECT_EQ(report.restarts, 3);
}

TEST(Restarts, ThreeThatFailInARowEndTheRun) {
  const auto crew = crew_of(2, TransportKind::kIpc);
  Ring program({.workers = 2}, [&](int64_t round) {
    if (round == 20) kill_worker(*crew, 0);
  });
  const auto error = tests::error_of([&] { run(program, *crew, killing_replacements(*crew, 9)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kLost);
}

TEST(Restarts, AResultThatDiffersWhenItIsRepeatedEndsTheRun) {
  const RingOptions options{.workers = 2, .keeps_state = false};
  const auto crew = crew_of(options.workers, TransportKind::kIpc);
  Named program("fickle", options, [&](int64_t round) {
    if (round == 20) kill_worker(*crew, 0);
  });
  const auto error = tests::error_of([&] { run(program, *crew, restarting()); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("round 0 came to"));
}

TEST(Restarts, WhatAWorkerFailsWithItselfEndsTheRun) {
  const auto crew = crew_of(2, TransportKind::kIpc);
  Named program("failing", {.workers = 2});
  const auto error = tests::error_of([&] { run(program, *crew, restarting()); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("the light went out"));
}

TEST(Restarts, WhereNoneAreWantedALossEndsTheRun) {
  const auto crew = crew_of(2, TransportKind::kShm);
  Ring program({.workers = 2}, [&](int64_t round) {
    if (round == 20) kill_worker(*crew, 0);
  });
  const auto error = tests::error_of([&] { run(program, *crew); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kLost);
}

}  // namespace
}  // namespace kerf::schedmp

int main(int argc, char** argv) {
  if (const auto code = kerf::schedmp::serve_if_worker(argc, argv, kerf::schedmp::kPrograms))
    return *code;
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
