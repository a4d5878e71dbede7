// The rows that one worker serves: what changes come to, in which order, and what is refused.
#include "schedmp/tables/table_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "runtime/wire.h"
#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

using Floats = std::vector<float>;

Floats normals(std::mt19937_64& random, size_t count) {
  std::normal_distribution<float> normal;
  Floats numbers(count);
  for (float& each : numbers) each = normal(random);
  return numbers;
}

TableSpec completed(TableSpec spec, int workers) {
  complete(spec, workers);
  return spec;
}

// Some of so many rows, in ascending ranges.
std::vector<ops::Range> some_of(std::mt19937_64& random, int64_t rows) {
  std::vector<ops::Range> some;
  for (int64_t row = 0; row < rows;) {
    const int64_t end = std::min(rows, row + 1 + static_cast<int64_t>(random() % 3));
    if (random() % 2 == 0) some.push_back({row, end});
    row = end;
  }
  return some;
}

TableHead clock_to(int64_t clock, int64_t settled = 0) {
  return {.word = TableWord::kClock, .clock = clock, .settled = settled};
}

// ---- gradients

// A row by itself, by the kernel that all training uses.
struct LoneRow {
  Floats values;
  std::vector<Floats> states;
  int64_t updates = 0;

  void update(const ops::Optimizer& optimizer, const TableHead& head, const float* gradient) {
    const ops::Shape shape{std::ssize(values)};
    const auto view = [&](const float* data) {
      return ops::TensorView{ops::DType::kFloat32, shape,
                             reinterpret_cast<std::byte*>(const_cast<float*>(data))};
    };
    std::vector<ops::TensorView> kept;
    for (const Floats& each : states) kept.push_back(view(each.data()));
    ops::update(optimizer.rule({head.rate, ++updates}, head.decays), head.scale,
                view(values.data()), view(gradient), kept);
  }
};

class TableGradients : public testing::TestWithParam<ops::OptimizerOptions> {};

// Each row has its own count of gradients, whatever other rows had.
TEST_P(TableGradients, ChangeEachRowAsThoughItWereAlone) {
  constexpr int64_t kRows = 9, kWidth = 5;
  const ops::Optimizer optimizer(GetParam());
  TableSpec spec{.name = "values", .rows = kRows, .width = kWidth, .staleness = 1};
  spec.optimizer = GetParam();
  TableShard shard(completed(spec, 1), {});
  std::mt19937_64 random(7);
  const Floats begin = normals(random, static_cast<size_t>(kRows * kWidth));
  std::ranges::copy(begin, shard.values().begin());
  std::vector<LoneRow> rows(kRows);
  for (size_t row = 0; row < rows.size(); ++row) {
    const auto from = begin.begin() + static_cast<ptrdiff_t>(row) * kWidth;
    rows[row] = {{from, from + kWidth},
                 std::vector<Floats>(static_cast<size_t>(optimizer.states()), Floats(kWidth))};
  }
  for (int step = 0; step < 12; ++step) {
    TableHead head{
        .word = TableWord::kGradient, .decays = step % 3 > 0, .rows = some_of(random, kRows)};
    head.rate = 0.1 / (1 + step);
    head.scale = step % 2 == 0 ? 1.0F : 0.5F;
    const Floats gradient = normals(random, static_cast<size_t>(count_rows(head.rows) * kWidth));
    shard.change(0, {head, gradient});
    const float* from = gradient.data();
    for (const ops::Range& range : head.rows)
      for (int64_t row = range.begin; row < range.end; ++row, from += kWidth)
        rows[static_cast<size_t>(row)].update(optimizer, head, from);
    for (int64_t row = 0; row < kRows; ++row)
      EXPECT_TRUE(
          std::ranges::equal(shard.values().subspan(static_cast<size_t>(row * kWidth), kWidth),
                             rows[static_cast<size_t>(row)].values))
          << "row " << row << ", step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, TableGradients,
    testing::Values(ops::OptimizerOptions{.weight_decay = 0.01},
                    ops::OptimizerOptions{.momentum = 0.9, .nesterov = true},
                    ops::OptimizerOptions{.name = "adagrad"}, ops::OptimizerOptions{.name = "adam"},
                    ops::OptimizerOptions{.name = "adamw", .weight_decay = 0.1}),
    [](const auto& each) {
      return each.param.name + (each.param.momentum > 0 ? "_with_momentum" : "");
    });

// ---- clocks

// Sums of floats depend on their order: by clock, then by client, then as a client sent them, in
// whatever order messages of different clients arrive.
TEST(TableShardTest, ASynchronousTablesChangesAreMadeInTheOrderOfClients) {
  constexpr int kClients = 3;
  constexpr int64_t kRows = 6, kClocks = 4;
  const TableSpec spec = completed({.name = "values", .rows = kClients * kRows}, kClients);
  std::mt19937_64 random(3);
  std::vector<std::vector<TableMessage>> said(kClients);
  std::vector<std::vector<Floats>> numbers(kClients);
  Floats expected(kRows);
  for (auto& each : numbers) each.reserve(size_t{2} * kClocks);
  for (int64_t clock = 1; clock <= kClocks; ++clock)
    for (size_t client = 0; client < kClients; ++client) {
      for (int i = 0; i < 2; ++i) {
        TableHead head{.word = i == 0 && clock % 2 == 0 ? TableWord::kAssign : TableWord::kAdd,
                       .scale = 0.7F,
                       .rows = some_of(random, kRows)};
        const Floats& given = numbers[client].emplace_back(
            normals(random, static_cast<size_t>(count_rows(head.rows))));
        const float* from = given.data();
        for (const ops::Range& range : head.rows)
          for (int64_t row = range.begin; row < range.end; ++row, ++from) {
            float& to = expected[static_cast<size_t>(row)];
            to = head.word == TableWord::kAssign ? *from : to + head.scale * *from;
          }
        said[client].push_back({head, given});
      }
      said[client].push_back({clock_to(clock), {}});
    }
  for (int order = 0; order < 20; ++order) {
    TableShard shard(spec, {0, 1});
    std::vector<size_t> next(kClients);
    for (size_t left = kClients * 3 * kClocks; left > 0;) {
      const size_t client = random() % kClients;
      if (next[client] == said[client].size()) continue;
      const TableMessage& message = said[client][next[client]++];
      if (message.head.word == TableWord::kClock)
        shard.tick(static_cast<int>(client), message.head);
      else
        shard.change(static_cast<int>(client), message);
      --left;
    }
    EXPECT_THAT(shard.values(), testing::ElementsAreArray(expected));
  }
}

TEST(TableShardTest, OfAClockThatNotAllHaveComeToASynchronousTableShowsNothing) {
  TableShard shard(completed({.name = "values", .rows = 2}, 2), {});
  const Floats one{1};
  TableHead head{.word = TableWord::kAdd, .rows = {{0, 1}}};
  shard.change(0, {head, one});
  shard.tick(0, clock_to(1));
  EXPECT_EQ(shard.values()[0], 0);
  EXPECT_EQ(shard.slowest(), 1);
  shard.tick(1, clock_to(1));
  EXPECT_EQ(shard.values()[0], 1);
}

TEST(TableShardTest, IsReadOnceAllClientsHaveCome) {
  TableShard shard(completed({.name = "values", .rows = 3, .staleness = 2}, 3), {});
  const TableHead read{.word = TableWord::kRead, .clock = 2, .rows = {{0, 1}}};
  std::mt19937_64 random(5);
  std::vector<int64_t> clocks(3);
  while (std::ranges::min(clocks) < 4) {
    const size_t client = random() % clocks.size();
    shard.tick(static_cast<int>(client), clock_to(++clocks[client]));
    EXPECT_EQ(shard.clock(), std::ranges::min(clocks));
    EXPECT_EQ(clocks[static_cast<size_t>(shard.slowest())], shard.clock());
    EXPECT_EQ(shard.may_be_read(read), std::ranges::min(clocks) >= 2);
  }
}

// ---- groups

// All that changed here reaches the others once, whatever changed it; what they told is not told
// back.
TEST(TableShardTest, OtherGroupsHearOfEachChangeOnce) {
  const TableSpec spec = completed({.name = "values",
                                    .rows = 4,
                                    .groups = {{0}, {1}},
                                    .exchange = 3,
                                    .staleness = TableSpec::kAnyStaleness},
                                   2);
  TableShard here(spec, {0, 0}), there(spec, {1, 0});
  const Floats told{16, 32, 64, 128};
  here.hear(1, {{.word = TableWord::kChanges, .rows = {{0, 4}}}, told});
  EXPECT_FALSE(here.may_be_read({.word = TableWord::kRead, .settled = 1}));
  Floats heard(4);
  int64_t times = 0;
  for (int64_t clock = 1; clock <= 8; ++clock) {
    const Floats numbers{1, static_cast<float>(clock)};
    here.change(0, {{.word = TableWord::kAdd, .rows = {{1, 3}}}, numbers});
    here.change(0, {{.word = TableWord::kAssign, .rows = {{3, 4}}}, Floats{128 + numbers[1]}});
    here.tick(0, clock_to(clock, clock == 8 ? 1 : 0));
    const auto news = here.take_news();
    EXPECT_EQ(news.has_value(), clock % 3 == 0 || clock == 8) << clock;
    if (!news) continue;
    EXPECT_EQ(news->settled, clock == 8 ? 1 : 0);
    TableHead head{.word = TableWord::kChanges, .settled = news->settled, .rows = {{0, 4}}};
    there.hear(0, {head, news->changes});
    ++times;
  }
  EXPECT_EQ(times, 3);
  EXPECT_THAT(there.values(), testing::ElementsAre(0, 8, 36, 8));
  EXPECT_THAT(here.values(), testing::ElementsAre(16, 40, 100, 136));
  there.tick(0, clock_to(1, 1));
  EXPECT_TRUE(there.take_news());
  EXPECT_TRUE(there.may_be_read({.word = TableWord::kRead, .settled = 1}));
  there.tick(0, clock_to(2, 1));
  there.tick(0, clock_to(3, 1));
  EXPECT_EQ(there.take_news()->settled, 3) << "however late it is asked";
}

// ---- what is refused

TEST(TableShardTest, WhatDoesNotFitIsRefusedByTheTablesNameAndChangesNothing) {
  constexpr int64_t kMost = int64_t{1} << 62;
  const TableSpec spec = completed({.name = "values", .rows = 4, .width = 2, .staleness = 1}, 1);
  TableShard shard(spec, {});
  const Floats numbers(64, 1.0F);
  const auto refused = [&](const TableHead& head, size_t count) {
    const auto error = tests::error_of([&] {
      shard.change(0, {head, std::span(numbers).first(count)});
    });
    return error && error->code() == ErrorCode::kProtocol &&
           std::string(error->what()).find("table values") != std::string::npos;
  };
  const auto added = [](std::vector<ops::Range> rows) {
    return TableHead{.word = TableWord::kAdd, .rows = std::move(rows)};
  };
  EXPECT_TRUE(refused(added({{3, 5}}), 4)) << "rows behind the last";
  EXPECT_TRUE(refused(added({{-1, 1}}), 4));
  EXPECT_TRUE(refused(added({{2, 1}}), 0));
  EXPECT_TRUE(refused(added({{0, kMost}}), 64));
  EXPECT_TRUE(refused(added({{-kMost, kMost}}), 0)) << "as many as a number has room for";
  EXPECT_TRUE(refused(added({{0, 2}}), 3)) << "a number too few";
  EXPECT_TRUE(refused(added({{0, 2}}), 6));
  EXPECT_TRUE(refused(added({}), 1));
  EXPECT_TRUE(refused({.word = TableWord::kGradient, .rows = {{0, 2}}}, 4)) << "no optimizer";
  std::vector<ops::Range> many(static_cast<size_t>(rows_in_a_message(spec)), {0, 4});
  EXPECT_TRUE(refused(added(many), 64)) << "more rows than go into a message";
  for (const TableHead& clock : {clock_to(2), clock_to(0), clock_to(1, -1), clock_to(1, 2)})
    EXPECT_TRUE(tests::error_of([&] { shard.tick(0, clock); })) << clock.clock;
  EXPECT_TRUE(tests::error_of([&] { shard.read({.word = TableWord::kRead, .rows = {{0, 5}}}); }));
  EXPECT_THAT(shard.values(), testing::Each(0.0F));
  EXPECT_EQ(shard.clock(), 0);
}

// ---- as bytes

TEST(TableShardTest, WhatIsOfAnotherShardOrCutShortIsRefused) {
  TableSpec spec{.name = "values", .rows = 5, .width = 2};
  spec.optimizer = ops::OptimizerOptions{.name = "adam"};
  spec = completed(spec, 2);
  TableShard shard(spec, {});
  const Floats numbers(4, 1.0F);
  shard.change(1, {{.word = TableWord::kGradient, .rate = 1, .rows = {{0, 2}}}, numbers});
  shard.tick(1, clock_to(1));
  runtime::WireWriter writer;
  shard.save(writer);
  const std::string bytes = writer.take();
  const auto takes = [&](TableShard into, std::string_view saved) {
    return !tests::error_of([&] {
      runtime::WireReader reader(saved);
      into.load(reader);
    });
  };
  EXPECT_TRUE(takes(TableShard(spec, {}), bytes));
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(takes(TableShard(spec, {}), std::string_view(bytes).substr(0, size))) << size;
  EXPECT_FALSE(takes(TableShard(spec, {0, 1}), bytes)) << "of fewer rows";
  TableSpec other = spec;
  other.optimizer.reset();
  EXPECT_FALSE(takes(TableShard(other, {}), bytes));
  other = spec;
  other.staleness = 1;
  EXPECT_FALSE(takes(TableShard(other, {}), bytes)) << "where nothing waits for a clock";
}

// Of 7 rows of 3 numbers the second of three servers has two: as many values and states, counts of
// updates, changes that other groups have yet to hear of and that are on their way to each, and of
// synchronous tables what waits for its clock, of each client.
TEST(TableBytes, AreThoseOfWhatAShardHolds) {
  const auto bytes = [](TableSpec spec) {
    complete(spec, 6);
    return table_bytes(spec, 1);
  };
  const TableSpec plain{.name = "t",
                        .rows = 7,
                        .width = 3,
                        .groups = {{0, 1, 2}},
                        .staleness = TableSpec::kAnyStaleness};
  constexpr int64_t kNumbers = 2 * 3 * sizeof(float);
  EXPECT_EQ(bytes(plain), kNumbers);
  TableSpec adam = plain;
  adam.optimizer = {.name = "adam"};
  EXPECT_EQ(bytes(adam), 3 * kNumbers + 2 * 8);
  TableSpec groups = plain;
  groups.groups = {{0, 1, 2}, {3, 4, 5}};
  EXPECT_EQ(bytes(groups), (1 + 1 + 1) * kNumbers);
  TableSpec synchronous = plain;
  synchronous.staleness = 0;
  EXPECT_EQ(bytes(synchronous), (1 + 3) * kNumbers);
  TableSpec elsewhere = plain;
  elsewhere.groups = {{0, 2, 3}};
  EXPECT_EQ(bytes(elsewhere), 0);
  for (TableSpec spec : {plain, adam, groups}) {
    complete(spec, 6);
    TableShard shard(spec, *place_in(spec, 1));
    const TableContents held = shard.contents();
    size_t sum = held.values.size_bytes() + held.updates.size_bytes();
    for (const std::span<float>& state : held.states) sum += state.size_bytes();
    const auto on_the_way = static_cast<int64_t>(spec.groups.size() - 1) * kNumbers;
    EXPECT_EQ(static_cast<int64_t>(sum + held.unheard.size_bytes()) + on_the_way,
              table_bytes(spec, 1));
  }
}

}  // namespace
}  // namespace kerf::schedmp
