// Programs through the scheduler's loop: any number of workers, any depth, in order.
#include "schedmp/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "runtime/error.h"
#include "schedmp/scheduler.h"
#include "tests/support/errors.h"
#include "tests/support/inproc_crew.h"

namespace kerf::schedmp {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using tests::error_of;
using tests::inproc_crew;

const ProgramFactories& programs();

struct SumMessages {
  using Job = NoJob;
  using Task = int64_t;
  using Result = int64_t;
};

// Adds up what workers make of round * 100 + task; a round has tasks for some workers, some of
// which get several.
class Sum : public SchedulerHalf<SumMessages> {
 public:
  Sum(int64_t rounds, int workers, int depth = 1)
      : rounds_(rounds), workers_(workers), depth_(depth) {}
  std::string name() const override { return "sum"; }
  int depth() const override { return depth_; }
  Decision schedule(int64_t round) override {
    if (round == rounds_) return Done{};
    ahead = std::max(ahead, round - folded);
    std::vector<Task> tasks;
    for (int64_t task = 0; task < tasks_of(round); ++task)
      tasks.push_back({static_cast<int>((round + task) % workers_), round * 100 + task, -task});
    return tasks;
  }
  void aggregate(int64_t round, std::vector<Result> results) override {
    EXPECT_EQ(round, folded++);
    ASSERT_EQ(std::ssize(results), tasks_of(round));
    for (int64_t task = 0; task < std::ssize(results); ++task) {
      const Result& result = results[static_cast<size_t>(task)];
      EXPECT_EQ(result.worker, (round + task) % workers_);
      EXPECT_EQ(result.id, -task);
      EXPECT_EQ(result.payload, round * 100 + task + 1);
      ++seen;
    }
  }
  static int64_t tasks_of(int64_t round) { return 1 + round % 5; }

  int64_t seen = 0;
  int64_t folded = 0;
  int64_t ahead = 0;

 private:
  int64_t rounds_;
  int workers_;
  int depth_;
};

class AddOne : public WorkerHalf<SumMessages> {
 public:
  int64_t update(const int64_t& task) override { return task + 1; }
};

struct TextMessages {
  using Job = std::string;
  using Task = std::string;
  using Result = std::string;
};

// Throws where it is told to.
void throw_at(const std::string& here, const std::string& where) {
  if (here == where) throw Error(ErrorCode::kUnavailable, "no fuel in " + here, "tank");
}

class Throwing : public SchedulerHalf<TextMessages> {
 public:
  explicit Throwing(std::string where) : where_(std::move(where)) {}
  std::string name() const override { return "throwing"; }
  int depth() const override { return 2; }
  std::string job(int) override { return where_; }
  Decision schedule(int64_t round) override {
    if (round == 3) throw_at("schedule", where_);
    return std::vector<Task>{{0, "x"}};
  }
  void aggregate(int64_t round, std::vector<Result>) override {
    if (round == 3) throw_at("aggregate", where_);
  }

 private:
  std::string where_;
};

class ThrowingWorker : public WorkerHalf<TextMessages> {
 public:
  void start(runtime::Workplace&, const std::string& job) override {
    where_ = job;
    throw_at("start", where_);
  }
  std::string update(const std::string&) override { return throw_at("update", where_), "done"; }

 private:
  std::string where_;
};

// Schedules what it is told to, as long as that has something to say.
class Scripted : public SchedulerHalf<TextMessages> {
 public:
  using Script = std::function<Decision(int64_t round)>;
  explicit Scripted(Script script, std::string name = "scripted")
      : script_(std::move(script)), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  int depth() const override { return 4; }
  bool unordered() const override { return as_they_come; }
  Decision schedule(int64_t round) override {
    if (++asked > 1000) throw Error(ErrorCode::kInternal, "it is asked again and again");
    return script_(round);
  }
  void aggregate(int64_t round, std::vector<Result> results) override {
    for (const Result& each : results) told.emplace_back(round, each.id);
    if (folded) folded();
  }

  bool as_they_come = false;
  std::function<void()> folded;
  int asked = 0;
  std::vector<std::pair<int64_t, int64_t>> told;  // round and id of each result, as they were told

 private:
  Script script_;
  std::string name_;
};

// Does a task by its text: "fail", "sleep" until it is woken, five seconds at most, or anything
// else.
class ScriptedWorker : public WorkerHalf<TextMessages> {
 public:
  std::string update(const std::string& task) override {
    if (task == "fail") throw Error(ErrorCode::kUsage, "the third gear is missing", "gearbox");
    const auto end = runtime::after(std::chrono::seconds(5));
    while (task == "sleep" && !awake && runtime::Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return task;
  }
  static std::atomic<bool> awake;
};
std::atomic<bool> ScriptedWorker::awake = true;

const ProgramFactories& programs() {
  static const ProgramFactories factories = {{"sum", worker_half<AddOne>},
                                             {"throwing", worker_half<ThrowingWorker>},
                                             {"scripted", worker_half<ScriptedWorker>}};
  return factories;
}

using Texts = std::vector<TaskFor<std::string>>;

std::optional<Error> error_of_script(Scripted::Script script, int workers = 1) {
  Scripted program(std::move(script));
  const auto crew = inproc_crew(workers, programs());
  return error_of([&] { run(program, *crew); });
}

class Loop : public testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(Loop, FoldsEveryResultOnceInOrder) {
  const auto [workers, depth, batch] = GetParam();
  constexpr int64_t kRounds = 200;
  int64_t tasks = 0;
  for (int64_t round = 0; round < kRounds; ++round) tasks += Sum::tasks_of(round);
  Sum program(kRounds, workers, depth);
  const auto crew = inproc_crew(workers, programs());
  const LoopReport report = run(program, *crew, {.depth = {}, .batch = batch});
  crew->stop();
  EXPECT_EQ(program.seen, tasks);
  EXPECT_EQ(report.rounds, kRounds);
  EXPECT_EQ(report.tasks, tasks);
  EXPECT_EQ(program.ahead, depth - 1) << "so many rounds are under way, and never more";
}

INSTANTIATE_TEST_SUITE_P(WorkersDepthBatch, Loop,
                         testing::Combine(testing::Values(1, 2, 4), testing::Values(1, 3, 16),
                                          testing::Values(1, 8)));

TEST(LoopDepth, IsWhatTheProgramDeclaresUnlessSomebodySaysSo) {
  for (const auto& [asked, depth] : {std::pair(std::optional<int>(), 3), {std::optional(5), 5}}) {
    Sum program(50, 2, 3);
    const auto crew = inproc_crew(2, programs());
    run(program, *crew, {.depth = asked});
    crew->stop();
    EXPECT_EQ(program.ahead, depth - 1);
  }
}

// Worker 0 is asleep until worker 1 was heard of in every round: in order nothing would be told.
TEST(LoopUnordered, TellsEachResultAsItComes) {
  ScriptedWorker::awake = false;
  Scripted program([](int64_t round) -> Scripted::Decision {
    if (round == 4) return Done{};
    return Texts{{0, "sleep", 7}, {1, "go", 8}};
  });
  program.as_they_come = true;
  program.folded = [&] { ScriptedWorker::awake = program.told.size() >= 4; };
  const auto crew = inproc_crew(2, programs());
  const LoopReport report = run(program, *crew);
  crew->stop();
  ASSERT_EQ(program.told.size(), 8u);
  for (int64_t round = 0; round < 4; ++round) {
    EXPECT_EQ(program.told[static_cast<size_t>(round)], std::pair(round, int64_t{8}));
    EXPECT_EQ(program.told[static_cast<size_t>(4 + round)], std::pair(round, int64_t{7}));
  }
  EXPECT_EQ(report.rounds, 4);
}

// Whatever is in by then: here all that there is, as the program takes its time.
TEST(LoopDepth, IsAlsoWhatTheProgramHasSeen) {
  std::vector<size_t> seen, expected;
  std::optional<Scripted> program;
  program.emplace([&](int64_t round) -> Scripted::Decision {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    seen.push_back(program->told.size());
    if (round == 30) return Done{};
    return Texts{{0, "go"}};
  });
  const auto crew = inproc_crew(1, programs());
  run(*program, *crew);
  crew->stop();
  for (int64_t round = 0; round <= 30; ++round)
    expected.push_back(static_cast<size_t>(std::max<int64_t>(0, round - 3)));
  EXPECT_EQ(seen, expected);
}

TEST(LoopWaits, UntilAResultIsIn) {
  bool owed = false;
  Scripted program([&](int64_t round) -> Scripted::Decision {
    if (owed) return Wait{};
    if (round == 20) return Done{};
    owed = true;
    return Texts{{0, "go"}};
  });
  program.folded = [&] { owed = false; };
  const auto crew = inproc_crew(1, programs());
  EXPECT_EQ(run(program, *crew).rounds, 20);
  crew->stop();
  EXPECT_EQ(program.asked, 20 * 2 + 1) << "it is asked again once a result is in, and not before";
}

// Of three rounds under way the last two sleep until it is asked again.
TEST(LoopWaits, NoLongerThanThatHoweverManyRoundsGoTogether) {
  for (const bool as_they_come : {false, true})
    for (const int batch : {1, 8}) {
      ScriptedWorker::awake = false;
      size_t told = 0;
      Scripted program([&](int64_t round) -> Scripted::Decision {
        if (round == 4) return Done{};
        if (round == 3 && told == 0) return Wait{};
        if (round == 3) {
          EXPECT_EQ(told, 1u) << batch;
          ScriptedWorker::awake = true;
        }
        return Texts{{0, round == 1 || round == 2 ? "sleep" : "go"}};
      });
      program.as_they_come = as_they_come;
      program.folded = [&] { ++told; };
      const auto crew = inproc_crew(1, programs());
      EXPECT_EQ(run(program, *crew, {.depth = 8, .batch = batch}).rounds, 4);
      crew->stop();
    }
}

TEST(LoopErrors, WhoWaitsForNothingIsToldSo) {
  const auto thrown = error_of_script([](int64_t round) -> Scripted::Decision {
    if (round == 2) return Wait{};
    return Texts{{0, "go"}};
  });
  ASSERT_TRUE(thrown);
  EXPECT_EQ(thrown->code(), ErrorCode::kInternal);
  EXPECT_THAT(thrown->what(), AllOf(HasSubstr("no task is under way"), HasSubstr("scripted"),
                                    HasSubstr("round 2")));
}

TEST(LoopErrors, AWorkersErrorEndsTheRunAndNamesTheWorker) {
  const auto error = error_of_script([](int64_t) { return Texts{{1, "fail"}}; }, 2);
  ASSERT_TRUE(error) << "the error was lost";
  EXPECT_THAT(error->what(), AllOf(HasSubstr("the third gear is missing"), HasSubstr("worker 1")));
}

TEST(LoopErrors, AnUnknownProgramIsRefusedByName) {
  Scripted program([](int64_t) { return Done{}; }, "broken");
  const auto crew = inproc_crew(1, {{"sum", worker_half<AddOne>}});
  const auto error = error_of([&] { run(program, *crew); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("broken"));
}

TEST(LoopErrors, AWorkersHalfWithOtherMessagesIsRefused) {
  EXPECT_NE(signature_of<TextMessages>(), signature_of<EncodedMessages>()) << "both are strings";
  Scripted program([](int64_t) { return Texts{{0, "go"}}; }, "sum");
  const auto crew = inproc_crew(1, programs());
  const auto error = error_of([&] { run(program, *crew); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_THAT(error->what(), HasSubstr("other messages"));
}

// Written with a byte that is not read.
struct Lopsided {
  template <class Archive>
  void serialize(Archive& archive) {
    char byte = 0;
    if constexpr (Archive::is_saving::value) archive(byte);
  }
};
struct LopsidedMessages {
  using Job = NoJob;
  using Task = int64_t;
  using Result = Lopsided;
};
class LopsidedProgram : public SchedulerHalf<LopsidedMessages> {
 public:
  std::string name() const override { return "lopsided"; }
  Decision schedule(int64_t) override { return std::vector<Task>{{1, 1}}; }
  void aggregate(int64_t, std::vector<Result>) override {}
};
class LopsidedWorker : public WorkerHalf<LopsidedMessages> {
 public:
  Lopsided update(const int64_t&) override { return {}; }
};

TEST(LoopErrors, AResultThatCannotBeReadNamesItsProgramRoundAndWorker) {
  LopsidedProgram program;
  const auto crew = inproc_crew(2, {{"lopsided", worker_half<LopsidedWorker>}});
  const auto error = error_of([&] { run(program, *crew); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kProtocol);
  EXPECT_EQ(error->where(), "program lopsided, round 0, a result of worker 1");
}

// Whichever half it is in, it ends the run at once, as it was thrown, and nothing hangs.
TEST(LoopErrors, WhatAProgramThrowsEndsTheRun) {
  for (const std::string where : {"start", "schedule", "update", "aggregate"}) {
    Throwing program(where);
    const auto begin = runtime::Clock::now();
    auto crew = inproc_crew(2, programs());
    const auto thrown = error_of([&] { run(program, *crew); });
    crew.reset();
    ASSERT_TRUE(thrown) << where;
    EXPECT_EQ(thrown->code(), ErrorCode::kUnavailable) << where;
    EXPECT_EQ(thrown->where(), where == "update" ? "tank, round 0, task 0" : "tank");
    EXPECT_THAT(thrown->message(), HasSubstr("no fuel in " + where));
    EXPECT_LT(runtime::Clock::now() - begin, std::chrono::seconds(5)) << where;
  }
}

TEST(LoopErrors, WhatIsThrownWithoutAPlaceGetsOne) {
  const auto error = error_of_script([](int64_t round) -> Scripted::Decision {
    if (round == 2) throw Error(ErrorCode::kUsage, "no fuel");
    return Texts{{0, "go"}};
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_STREQ(error->what(), "program scripted, round 2, schedule: no fuel");
  const auto other = error_of_script(
      [](int64_t) -> Scripted::Decision { throw std::runtime_error("a plain exception"); });
  ASSERT_TRUE(other);
  EXPECT_EQ(other->code(), ErrorCode::kInternal);
  EXPECT_STREQ(other->what(), "program scripted, round 0, schedule: a plain exception");
}

TEST(LoopErrors, AnInterruptIsSeenWhileAProgramWaits) {
  ScriptedWorker::awake = false;
  const auto crew = inproc_crew(1, programs());
  Scripted program([&](int64_t round) -> Scripted::Decision {
    if (round == 0) return Texts{{0, "sleep"}};
    crew->interrupt();
    return Wait{};
  });
  const auto thrown = error_of([&] { run(program, *crew); });
  ScriptedWorker::awake = true;
  ASSERT_TRUE(thrown);
  EXPECT_EQ(thrown->code(), ErrorCode::kInterrupted);
}

TEST(LoopErrors, AFailureIsSeenWhileAProgramWaits) {
  const auto thrown = error_of_script([](int64_t round) -> Scripted::Decision {
    if (round == 0) return Texts{{0, "fail"}};
    return Wait{};
  });
  ASSERT_TRUE(thrown);
  EXPECT_THAT(thrown->message(), HasSubstr("the third gear is missing"));
}

TEST(LoopErrors, ARoundOfNoTaskIsABug) {
  const auto thrown = error_of_script([](int64_t) { return Texts{}; });
  ASSERT_TRUE(thrown);
  EXPECT_EQ(thrown->code(), ErrorCode::kInternal);
  EXPECT_THAT(thrown->message(), HasSubstr("round 0 schedules no task"));
}

TEST(LoopErrors, ATaskForAWorkerThatThereIsNotIsABug) {
  for (const int worker : {-1, 2}) {
    const auto thrown = error_of_script([&](int64_t) { return Texts{{worker, "go"}}; }, 2);
    ASSERT_TRUE(thrown);
    EXPECT_THAT(thrown->message(), HasSubstr(kerf::format("schedules worker {} of 2", worker)));
  }
}

TEST(LoopErrors, ATaskOfMoreThanAMessageIsABug) {
  const auto thrown = error_of_script([](int64_t) {
    return Texts{{0, std::string(2'000'000, 'x')}};
  });
  ASSERT_TRUE(thrown);
  EXPECT_EQ(thrown->code(), ErrorCode::kInternal);
  EXPECT_THAT(thrown->message(), HasSubstr("belongs into a table or a channel"));
}

}  // namespace
}  // namespace kerf::schedmp
