// Tables over a crew: what workers read is what all changed, as each table's staleness says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>

#include "schedmp/encoded_program.h"
#include "schedmp/scheduler.h"
#include "tests/support/errors.h"
#include "tests/support/inproc_crew.h"

namespace kerf::schedmp {
namespace {

// A walk of one worker through its clocks: at each it adds to rows, and then reads all.
struct WalkJob {
  int64_t clocks = 0;
  int slow = -1;  // this worker sleeps at each clock
  int sleep_us = 0;
  uint64_t seed = 1;
  bool sums = false;  // what it read last it tells by its sum alone

  template <class Archive>
  void serialize(Archive& archive) {
    archive(clocks, slow, sleep_us, seed, sums);
  }
};

struct WalkResult {
  std::vector<int64_t> staleness;              // of each read
  std::vector<std::vector<float>> reads = {};  // of all rows
  std::vector<float> last = {};                // read settled
  double sum = 0;                              // of that, each number times its place

  template <class Archive>
  void serialize(Archive& archive) {
    archive(staleness, reads, last, sum);
  }
};

struct WalkMessages {
  using Job = WalkJob;
  using Task = int32_t;
  using Result = WalkResult;
};

double sum_of(const std::vector<float>& values) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i)
    sum += static_cast<double>(i + 1) * static_cast<double>(values[i]);
  return sum;
}

// What a worker adds at a clock: to some rows, scattered, each once.
struct Added {
  std::vector<ops::Range> rows;
  std::vector<float> numbers;
};

Added added_by(const TableSpec& spec, uint64_t seed, int worker, int64_t clock) {
  std::mt19937_64 random(seed * 1000 + static_cast<uint64_t>(worker) * 100 +
                         static_cast<uint64_t>(clock));
  Added added;
  for (int64_t row = 0; row < spec.rows;) {
    const auto count = std::min<int64_t>(1 + static_cast<int64_t>(random() % 3), spec.rows - row);
    if (random() % 2 == 0) {
      added.rows.push_back({row, row + count});
      for (int64_t i = 0; i < count * spec.width; ++i)
        added.numbers.push_back(static_cast<float>(random() % 16));
    }
    row += count;
  }
  return added;
}

void add_to(std::vector<float>& values, const TableSpec& spec, const Added& added) {
  const float* from = added.numbers.data();
  for (const ops::Range& rows : added.rows)
    for (int64_t i = rows.begin * spec.width; i < rows.end * spec.width; ++i)
      values[static_cast<size_t>(i)] += *from++;
}

class WalkWorker final : public WorkerHalf<WalkMessages> {
 public:
  void start(runtime::Workplace& workplace, const WalkJob& job) override {
    worker_ = workplace.worker;
    job_ = job;
    Table& table = tables().at(0);
    std::span<float> own = table.own();
    for (int64_t row = 0; row < table.own_rows(); ++row)
      for (int64_t i = 0; i < table.spec().width; ++i)
        own[static_cast<size_t>(row * table.spec().width + i)] = static_cast<float>(table.row(row));
  }

  WalkResult update(const int32_t&) override {
    Table& table = tables().at(0);
    const TableSpec& spec = table.spec();
    const std::vector<ops::Range> all{{0, spec.rows}};
    WalkResult result;
    std::vector<float> values(static_cast<size_t>(spec.rows * spec.width));
    for (int64_t clock = 0; clock < job_.clocks; ++clock) {
      if (worker_ == job_.slow)
        std::this_thread::sleep_for(std::chrono::microseconds(job_.sleep_us));
      const Added added = added_by(spec, job_.seed, worker_, clock);
      table.add(added.rows, added.numbers);
      table.clock(clock + 1 == job_.clocks);
      result.staleness.push_back(table.read(all, values));
      if (!job_.sums) result.reads.push_back(values);
    }
    table.read_settled(all, values);
    result.sum = sum_of(values);
    if (!job_.sums) result.last = values;
    return result;
  }

 private:
  int worker_ = 0;
  WalkJob job_;
};

class Walk final : public SchedulerHalf<WalkMessages> {
 public:
  Walk(TableSpec spec, WalkJob job, int workers)
      : spec_(std::move(spec)), job_(job), workers_(workers) {}

  std::string name() const override { return "walk"; }
  WalkJob job(int) override { return job_; }
  std::vector<TableSpec> tables(int) override { return {spec_}; }
  Decision schedule(int64_t round) override {
    if (round > 0) return Done{};
    std::vector<Task> tasks;
    for (int worker = 0; worker < workers_; ++worker) tasks.push_back({worker, 0});
    return tasks;
  }
  void aggregate(int64_t, std::vector<Result> results) override {
    for (Result& each : results) results_.push_back(std::move(each.payload));
  }
  const std::vector<WalkResult>& results() const { return results_; }

 private:
  TableSpec spec_;
  WalkJob job_;
  int workers_;
  std::vector<WalkResult> results_;
};

std::vector<WalkResult> walk(const TableSpec& spec, const WalkJob& job, int workers) {
  const auto crew = tests::inproc_crew(workers, {{"walk", worker_half<WalkWorker>}});
  Walk program(spec, job, workers);
  run(program, *crew);
  crew->stop();
  return program.results();
}

std::vector<float> begun(const TableSpec& spec) {
  std::vector<float> values;
  for (int64_t row = 0; row < spec.rows; ++row)
    values.insert(values.end(), static_cast<size_t>(spec.width), static_cast<float>(row));
  return values;
}

// What all workers changed in their first so many clocks, on top of what a table begins with.
std::vector<float> after(const TableSpec& spec, uint64_t seed, int workers, int64_t clocks) {
  std::vector<float> values = begun(spec);
  for (int worker = 0; worker < workers; ++worker)
    for (int64_t clock = 0; clock < clocks; ++clock)
      add_to(values, spec, added_by(spec, seed, worker, clock));
  return values;
}

class TableOf : public testing::TestWithParam<std::tuple<Sharding, int64_t, int>> {
 protected:
  TableSpec spec() const {
    const auto [sharding, staleness, workers] = GetParam();
    return {.name = "values", .rows = 23, .width = 3, .sharding = sharding, .staleness = staleness};
  }
  int workers() const { return std::get<2>(GetParam()); }
};

// Whole numbers: their sums are exact, whatever their order.
TEST_P(TableOf, HasInTheEndWhatAllChanged) {
  const auto results = walk(spec(), {.clocks = 5}, workers());
  for (const WalkResult& each : results) EXPECT_EQ(each.last, after(spec(), 1, workers(), 5));
}

// Numbers only grow: a read lies between what all had changed by the clock that it waited for, and
// what all ever change. And a client sees its own.
TEST_P(TableOf, NoReadLacksWhatItsStalenessPromises) {
  const int64_t staleness = spec().staleness;
  const auto results = walk(spec(), {.clocks = 6, .slow = 0, .sleep_us = 2000}, workers());
  const std::vector<float> most = after(spec(), 1, workers(), 6);
  for (size_t worker = 0; worker < results.size(); ++worker)
    for (size_t read = 0; read < results[worker].reads.size(); ++read) {
      const auto clock = static_cast<int64_t>(read) + 1;
      const int64_t seen =
          staleness == TableSpec::kAnyStaleness ? 0 : std::max<int64_t>(0, clock - staleness);
      std::vector<float> least = after(spec(), 1, workers(), seen);
      for (int64_t own = seen; own < clock; ++own)
        add_to(least, spec(), added_by(spec(), 1, static_cast<int>(worker), own));
      for (size_t i = 0; i < most.size(); ++i) {
        ASSERT_GE(results[worker].reads[read][i], least[i]) << worker << " at clock " << clock;
        ASSERT_LE(results[worker].reads[read][i], most[i]);
      }
      if (staleness != TableSpec::kAnyStaleness) {
        ASSERT_LE(results[worker].staleness[read], staleness);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TableOf,
                         testing::Combine(testing::Values(Sharding::kByBlock, Sharding::kByKey),
                                          testing::Values(0, 1, 3, TableSpec::kAnyStaleness),
                                          testing::Values(1, 2, 3)));

// As SSP promises, and no more: who is slow holds others up by just so much.
TEST(Tables, StalenessReachesItsBoundAndNeverGoesBeyond) {
  TableSpec spec{.name = "values", .rows = 8, .width = 2, .staleness = 3};
  const auto results = walk(spec, {.clocks = 12, .slow = 1, .sleep_us = 8000}, 3);
  for (const int fast : {0, 2})
    EXPECT_EQ(*std::ranges::max_element(results[fast].staleness), 3) << "worker " << fast;
  EXPECT_THAT(results[1].staleness, testing::Each(0)) << "nobody is behind the slowest";
}

TEST(Tables, ASynchronousReadIsOfItsClockAloneAndOfTheSameBits) {
  TableSpec spec{.name = "values", .rows = 11, .width = 4, .staleness = 0};
  const auto results = walk(spec, {.clocks = 4, .slow = 2, .sleep_us = 3000}, 3);
  for (const WalkResult& each : results)
    for (int64_t clock = 1; clock <= 4; ++clock)
      EXPECT_EQ(each.reads[static_cast<size_t>(clock - 1)], after(spec, 1, 3, clock));
}

TEST(Tables, GroupsHearOfEachOther) {
  TableSpec spec{.name = "values",
                 .rows = 10,
                 .width = 2,
                 .groups = {{0, 3}, {2, 1}},
                 .staleness = TableSpec::kAnyStaleness};
  for (const WalkResult& each : walk(spec, {.clocks = 5}, 4))
    EXPECT_EQ(each.last, after(spec, 1, 4, 5));
}

// Far more than a message has room for, and than slots.
TEST(Tables, CarryRowsOfManyMessages) {
  TableSpec spec{.name = "values", .rows = 3000, .width = 700, .staleness = 1};
  const double sum = sum_of(after(spec, 1, 2, 2));
  for (const WalkResult& each : walk(spec, {.clocks = 2, .sums = true}, 2))
    EXPECT_EQ(each.sum, sum);
}

TEST(Tables, ThatMakeNoSenseAreRefusedByName) {
  const TableSpec good{.name = "values", .rows = 4};
  const auto refused = [&](const std::function<void(TableSpec&)>& spoil) {
    TableSpec spec = good;
    spoil(spec);
    const auto error = tests::error_of([&] { complete(spec, 3); });
    return error && error->code() == ErrorCode::kUsage &&
           std::string(error->what()).find("table values") != std::string::npos;
  };
  EXPECT_FALSE(refused([](TableSpec&) {}));
  EXPECT_TRUE(refused([](TableSpec& spec) { spec.rows = 0; }));
  EXPECT_TRUE(refused([](TableSpec& spec) { spec.width = -1; }));
  EXPECT_TRUE(refused([](TableSpec& spec) { spec.rows = spec.width = int64_t{1} << 40; }));
  EXPECT_TRUE(refused([](TableSpec& spec) { spec.staleness = -2; }));
  EXPECT_TRUE(refused([](TableSpec& spec) { spec.exchange = 0; }));
  EXPECT_TRUE(refused([](TableSpec& spec) { spec.groups = {{0, 1}, {2}}; }));
  EXPECT_TRUE(refused([](TableSpec& spec) { spec.groups = {{0, 1}, {1, 2}}; }));
  EXPECT_TRUE(refused([](TableSpec& spec) { spec.groups = {{0, 3}}; }));
}

}  // namespace
}  // namespace kerf::schedmp
