// Programs with tables whose workers are processes, over each transport, and how they end where a
// worker does not go on. This program is also its own worker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "schedmp/scheduler.h"
#include "tests/schedmp/crew_of_this_program.h"
#include "tests/schedmp/table_walk.h"
#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

using namespace std::chrono_literals;
using runtime::TransportKind;
using testing::AllOf;
using testing::HasSubstr;

// Worker 1 does something else where others wait for its clock.
enum class Instead : uint8_t { kThrow, kDie, kSleep };

struct StuckMessages {
  using Job = NoJob;
  using Task = Instead;
  using Result = int32_t;
};

class StuckWorker final : public WorkerHalf<StuckMessages> {
 public:
  void start(runtime::Workplace& workplace, const NoJob&) override { worker_ = workplace.worker; }
  int32_t update(const Instead& what) override {
    Table& table = tables().at(0);
    if (worker_ == 1) do_instead(what);
    table.clock();
    std::vector<float> values(static_cast<size_t>(table.spec().rows));
    table.read({{0, table.spec().rows}}, values);
    return 0;
  }

 private:
  // When others have long waited, which they report four times a second.
  static void do_instead(Instead what) {
    std::this_thread::sleep_for(800ms);
    if (what == Instead::kThrow) throw Error(ErrorCode::kUnavailable, "the cord broke");
    if (what == Instead::kDie) ::kill(::getpid(), SIGKILL);
  }

  int worker_ = 0;
};

class Stuck final : public SchedulerHalf<StuckMessages> {
 public:
  explicit Stuck(Instead what) : what_(what) {}
  std::string name() const override { return "stuck"; }
  std::vector<TableSpec> tables(int) override { return {{.name = "values", .rows = 6}}; }
  Decision schedule(int64_t round) override {
    if (round > 0) return Done{};
    return std::vector<Task>{{0, what_}, {1, what_}, {2, what_}};
  }
  void aggregate(int64_t, std::vector<Result>) override {}

 private:
  Instead what_;
};

const ProgramFactories kPrograms{{"walk", worker_half<WalkWorker>},
                                 {"stuck", worker_half<StuckWorker>}};

std::unique_ptr<runtime::Crew> crew_of(int workers, TransportKind transport) {
  return crew_of_this_program(kPrograms, workers, transport);
}

class TablesOver : public testing::TestWithParam<TransportKind> {};

TEST_P(TablesOver, HaveTheSameBits) {
  for (const int workers : {1, 2, 3}) {
    const TableSpec spec{.name = "values", .rows = 23, .width = 3, .sharding = Sharding::kByKey};
    const auto crew = crew_of(workers, GetParam());
    Walk program(spec, {.clocks = 4}, workers);
    run(program, *crew);
    crew->stop();
    ASSERT_EQ(std::ssize(program.results()), workers);
    for (const WalkResult& each : program.results())
      for (int64_t clock = 1; clock <= 4; ++clock)
        EXPECT_EQ(each.reads[static_cast<size_t>(clock - 1)], after(spec, 1, workers, clock));
  }
}

TEST_P(TablesOver, CarryMoreThanSlotsHold) {
  const TableSpec spec{.name = "values", .rows = 3000, .width = 700, .staleness = 1};
  const auto crew = crew_of(2, GetParam());
  Walk program(spec, {.clocks = 2, .sums = true}, 2);
  run(program, *crew);
  crew->stop();
  const double sum = sum_of(after(spec, 1, 2, 2));
  for (const WalkResult& each : program.results()) EXPECT_EQ(each.sum, sum);
}

TEST_P(TablesOver, AWorkerThatThrowsEndsTheRunThoughOthersWaitForItsClock) {
  const auto crew = crew_of(3, GetParam());
  Stuck program(Instead::kThrow);
  const auto begin = runtime::Clock::now();
  const auto error = tests::error_of([&] { run(program, *crew); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("worker 1"), HasSubstr("the cord broke")));
  EXPECT_LT(runtime::Clock::now() - begin, 5s);
}

TEST_P(TablesOver, WhoWaitsForWhomIsReported) {
  const auto crew = crew_of(3, GetParam());
  Stuck program(Instead::kSleep);
  std::atomic<bool> over{false};
  std::array<std::atomic<bool>, 3> reported{};
  std::jthread watch([&] {
    for (; !over; std::this_thread::sleep_for(10ms))
      for (const runtime::WorkerInfo& each : crew->workers())
        if (each.activity.awaits == "rows of table values" && each.activity.awaited == 1)
          reported.at(static_cast<size_t>(each.worker)) = true;
  });
  run(program, *crew);
  over = true;
  watch.join();
  crew->stop();
  EXPECT_TRUE(reported[0]);
  EXPECT_FALSE(reported[1]);
  EXPECT_TRUE(reported[2]);
}

INSTANTIATE_TEST_SUITE_P(Transports, TablesOver,
                         testing::Values(TransportKind::kInproc, TransportKind::kShm,
                                         TransportKind::kIpc, TransportKind::kTcp),
                         [](const auto& each) { return std::string(to_string(each.param)); });

TEST(TablesOfProcesses, AKilledWorkerEndsTheRunWithWhoWaitedForIt) {
  for (const TransportKind transport : {TransportKind::kShm, TransportKind::kTcp}) {
    auto crew = crew_of(3, transport);
    Stuck program(Instead::kDie);
    const auto begin = runtime::Clock::now();
    const auto error = tests::error_of([&] { run(program, *crew); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kLost);
    EXPECT_THAT(error->what(), AllOf(HasSubstr("worker 1"), HasSubstr("signal 9 (Killed)"),
                                     HasSubstr("for rows of table values from worker 1")));
    crew.reset();
    EXPECT_LT(runtime::Clock::now() - begin, 5s);
  }
}

}  // namespace
}  // namespace kerf::schedmp

int main(int argc, char** argv) {
  if (const auto code = kerf::schedmp::serve_if_worker(argc, argv, kerf::schedmp::kPrograms))
    return *code;
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
