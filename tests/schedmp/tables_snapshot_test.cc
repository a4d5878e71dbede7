// A program with tables that ends somewhere goes on from its last snapshot: where all is
// synchronous to the same bits, and else with nothing lost and nothing twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/error.h"
#include "schedmp/scheduler.h"
#include "schedmp/state.h"
#include "tests/schedmp/table_walk.h"
#include "tests/support/errors.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp {
namespace {

constexpr int kWorkers = 4;
constexpr int64_t kGrowthRounds = 8;  // even: extra clocks are as many for all
constexpr uint64_t kEnded = 3;        // the seed of what is added before a clock
constexpr uint64_t kBehind = 77;      // and of what is added behind the last clock of a round

// Every kind of state there is: what optimizers keep, what waits for a clock, what other groups
// have yet to hear of, clocks that differ.
std::vector<TableSpec> growth_tables() {
  std::vector<TableSpec> tables{
      {.name = "learned", .rows = 17, .width = 3, .sharding = Sharding::kByKey},
      {.name = "summed", .rows = 10, .width = 2},
      {.name = "stale", .rows = 13, .width = 2, .staleness = 2},
      {.name = "grouped",
       .rows = 11,
       .width = 2,
       .sharding = Sharding::kByKey,
       .groups = {{0, 3}, {2, 1}},
       .exchange = 5,
       .staleness = TableSpec::kAnyStaleness},
      {.name = "few", .rows = 6, .width = 1, .groups = {{2, 1}}, .staleness = 1},
  };
  tables[0].optimizer = ops::OptimizerOptions{.name = "adam", .weight_decay = 0.01};
  return tables;
}

struct GrowthMessages {
  using Job = NoJob;
  using Task = int64_t;
  using Result = std::vector<std::vector<float>>;  // all rows, by table
};

class GrowthWorker final : public KeepsState<GrowthWorker, WorkerHalf<GrowthMessages>> {
 public:
  void start(runtime::Workplace& workplace, const NoJob&) override {
    worker_ = workplace.worker;
    for (int table = 0; table < tables().count(); ++table)
      if (tables().at(table).is_member()) fill_own(tables().at(table));
  }
  std::vector<std::vector<float>> update(const int64_t& round) override {
    std::vector<std::vector<float>> read;
    for (int table = 0; table < tables().count(); ++table) {
      read.emplace_back();
      if (tables().at(table).is_member()) read.back() = grow(tables().at(table), round);
    }
    return read;
  }
  template <class Archive>
  void state(Archive&) {}  // it has none, but tables

 private:
  std::vector<float> grow(Table& table, int64_t round) const {
    const TableSpec& spec = table.spec();
    change(table, added_by(spec, kEnded, worker_, round));
    if (spec.staleness == TableSpec::kAnyStaleness && (round + worker_) % 2 == 0) table.clock();
    table.clock(true);
    std::vector<float> values(static_cast<size_t>(spec.rows * spec.width));
    const std::vector<ops::Range> all{{0, spec.rows}};
    if (round + 1 == kGrowthRounds || spec.synchronous())
      table.read_settled(all, values);
    else
      table.read(all, values);
    if (round + 1 < kGrowthRounds) change(table, added_by(spec, kBehind, worker_, round));
    return values;
  }
  static void change(Table& table, const Added& added) {
    if (table.spec().optimizer)
      table.push(added.rows, added.numbers, {.rate = 0.125});
    else
      table.add(added.rows, added.numbers);
  }

  int worker_ = 0;
};

class Growth final : public KeepsState<Growth, SchedulerHalf<GrowthMessages>> {
 public:
  std::string name() const override { return "growth"; }
  std::vector<TableSpec> tables(int) override { return growth_tables(); }
  Decision schedule(int64_t round) override {
    if (round == fails_at) throw Error(ErrorCode::kUnavailable, "the light went out");
    if (round == kGrowthRounds) return Done{};
    std::vector<Task> tasks;
    for (int worker = 0; worker < kWorkers; ++worker) tasks.push_back({worker, round});
    return tasks;
  }
  void aggregate(int64_t round, std::vector<Result> results) override {
    for (const Result& each : results) reads[{round, each.worker}] = each.payload;
  }
  template <class Archive>
  void state(Archive&) {}

  int64_t fails_at = -1;
  std::map<std::pair<int64_t, int>, std::vector<std::vector<float>>> reads;
};

void run_growth(Growth& program, const SnapshotOptions& options) {
  const auto crew = tests::inproc_crew(kWorkers, {{"growth", worker_half<GrowthWorker>}});
  schedmp::run(program, *crew, {.snapshots = options});
  crew->stop();
}

// What a table has in the end, where numbers are added alone: whole ones, in any order.
std::vector<float> grown(const TableSpec& spec) {
  std::vector<float> values = begun(spec);
  for (int worker = 0; worker < kWorkers; ++worker) {
    if (!place_in(spec, worker)) continue;
    for (int64_t round = 0; round < kGrowthRounds; ++round) {
      add_to(values, spec, added_by(spec, kEnded, worker, round));
      if (round + 1 < kGrowthRounds) add_to(values, spec, added_by(spec, kBehind, worker, round));
    }
  }
  return values;
}

TEST(TablesSnapshot, ARunThatGoesOnHasTheSameBitsAndLosesNothing) {
  Growth whole;
  run_growth(whole, {});
  for (const int64_t ended : {3, 5, 7}) {
    const tests::TemporaryFolder folder;
    SnapshotOptions options{.folder = folder / "kept", .every = 2};
    Growth first;
    first.fails_at = ended;
    const auto error = tests::error_of([&] { run_growth(first, options); });
    ASSERT_TRUE(error);
    ASSERT_THAT(error->message(), testing::HasSubstr("the light went out"));
    options.resume = options.folder;
    Growth again;
    run_growth(again, options);
    EXPECT_EQ(again.reads.begin()->first.first, ended / 2 * 2) << "not from the beginning";
    std::vector<TableSpec> tables = growth_tables();
    for (TableSpec& each : tables) complete(each, kWorkers);
    for (const auto& [when, read] : again.reads)
      for (size_t table = 0; table < tables.size(); ++table) {
        if (tables[table].synchronous()) {
          EXPECT_EQ(read[table], whole.reads[when][table])
              << tables[table].name << ", round " << when.first << ", ended in " << ended;
        } else if (when.first + 1 == kGrowthRounds && place_in(tables[table], when.second)) {
          EXPECT_EQ(read[table], grown(tables[table]))
              << tables[table].name << ", ended in " << ended;
        }
      }
  }
}

// ---- what is on its way when a snapshot is due

struct FloodMessages {
  using Job = NoJob;
  using Task = bool;                       // whether it is the last
  using Result = std::pair<float, float>;  // then: the least number that there is, and the largest
};

constexpr int kFloods = 8;
constexpr int64_t kFloodRounds = 4;

class FloodWorker final : public KeepsState<FloodWorker, WorkerHalf<FloodMessages>> {
 public:
  std::pair<float, float> update(const bool& last) override {
    Table& table = tables().at(0);
    const std::vector<ops::Range> all{{0, table.spec().rows}};
    std::vector<float> values(static_cast<size_t>(table.spec().rows * table.spec().width), 1.0F);
    for (int i = 0; i < kFloods; ++i) table.add(all, values);
    if (!last) return {};
    table.clock(true);
    table.read_settled(all, values);
    const auto [least, most] = std::ranges::minmax(values);
    return {least, most};
  }
  template <class Archive>
  void state(Archive&) {}
};

class Flood final : public KeepsState<Flood, SchedulerHalf<FloodMessages>> {
 public:
  std::string name() const override { return "flood"; }
  std::vector<TableSpec> tables(int) override {
    return {{.name = "wide", .rows = 4096, .width = 256, .staleness = TableSpec::kAnyStaleness}};
  }
  Decision schedule(int64_t round) override {
    if (round == fails_at) throw Error(ErrorCode::kUnavailable, "the light went out");
    if (round == kFloodRounds) return Done{};
    const bool ends = round + 1 == kFloodRounds;
    return std::vector<Task>{{0, ends}, {1, ends}};
  }
  void aggregate(int64_t, std::vector<Result> results) override { last = results.at(0).payload; }
  template <class Archive>
  void state(Archive&) {}

  int64_t fails_at = -1;
  std::pair<float, float> last;
};

TEST(TablesSnapshot, WhatIsOnItsWayArrivesBefore) {
  const tests::TemporaryFolder folder;
  SnapshotOptions options{.folder = folder / "kept", .every = 1};
  const auto go = [&](Flood& program) {
    const auto crew = tests::inproc_crew(2, {{"flood", worker_half<FloodWorker>}});
    schedmp::run(program, *crew, {.snapshots = options});
    crew->stop();
  };
  Flood first;
  first.fails_at = kFloodRounds - 1;
  EXPECT_TRUE(tests::error_of([&] { go(first); }));
  options.resume = options.folder;
  Flood again;
  go(again);
  constexpr float kAll = 2 * kFloods * kFloodRounds;
  EXPECT_EQ(again.last, std::pair(kAll, kAll));
}

struct SilentWorker final : public WorkerHalf<GrowthMessages> {
  std::vector<std::vector<float>> update(const int64_t&) override { return {}; }
};

TEST(TablesSnapshot, AWorkersHalfThatKeepsNoneIsRefusedThoughItsTablesCould) {
  const tests::TemporaryFolder folder;
  Growth program;
  const auto crew = tests::inproc_crew(kWorkers, {{"growth", worker_half<SilentWorker>}});
  const auto error = tests::error_of([&] {
    schedmp::run(program, *crew, {.snapshots = {.folder = folder / "kept", .every = 2}});
  });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), testing::HasSubstr("keeps no snapshots"));
}

}  // namespace
}  // namespace kerf::schedmp
