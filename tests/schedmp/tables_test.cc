// Tables over a crew: what workers read is what all changed, as each table's staleness says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "schedmp/scheduler.h"
#include "tests/schedmp/table_walk.h"
#include "tests/support/errors.h"
#include "tests/support/inproc_crew.h"

namespace kerf::schedmp {
namespace {

std::vector<WalkResult> walk(const TableSpec& spec, const WalkJob& job, int workers) {
  const auto crew = tests::inproc_crew(workers, {{"walk", worker_half<WalkWorker>}});
  Walk program(spec, job, workers);
  run(program, *crew);
  crew->stop();
  return program.results();
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
  // But where the machine holds another up, for as long as that takes.
  EXPECT_GT(std::ranges::count(results[1].staleness, 0), 6) << "nobody is behind the slowest";
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

// News of other groups is of many messages, too: a settled read waits for the last of them.
TEST(Tables, GroupsTellEachOtherRowsOfManyMessages) {
  TableSpec spec{.name = "values",
                 .rows = 3000,
                 .width = 150,
                 .groups = {{0}, {1}},
                 .staleness = TableSpec::kAnyStaleness};
  const double sum = sum_of(after(spec, 1, 2, 3));
  for (const WalkResult& each : walk(spec, {.clocks = 3, .sums = true}, 2))
    EXPECT_EQ(each.sum, sum);
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
