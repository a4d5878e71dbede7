// Who has which rows of a table: of every size, each row has one who serves it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "schedmp/tables/table_spec.h"

namespace kerf::schedmp {
namespace {

class RowsOf : public testing::TestWithParam<Sharding> {
 protected:
  static TableRows rows_of(int64_t rows, int servers) {
    return {{.name = "values", .rows = rows, .sharding = GetParam()}, servers};
  }
  // For some sizes, fewer rows than servers among them.
  template <class Do>
  static void for_each_size(const Do& check) {
    for (int servers = 1; servers <= 7; ++servers)
      for (const int64_t rows : {1, 2, 3, 6, 7, 8, 20, 41}) check(rows, servers);
  }
};

TEST_P(RowsOf, EachHasOneServerAndIsFoundThere) {
  for_each_size([](int64_t rows, int servers) {
    const TableRows all = rows_of(rows, servers);
    std::vector<int> found(static_cast<size_t>(rows));
    for (int server = 0; server < servers; ++server)
      for (int64_t own = 0; own < all.rows_of(server); ++own) {
        const int64_t row = all.row(server, own);
        ASSERT_GE(row, 0);
        ASSERT_LT(row, rows);
        ++found[static_cast<size_t>(row)];
        EXPECT_EQ(all.own(server, {row, row + 1}), (ops::Range{own, own + 1}));
      }
    EXPECT_THAT(found, testing::Each(1)) << rows << " rows, " << servers << " servers";
  });
}

TEST_P(RowsOf, AreSpreadEvenly) {
  for_each_size([](int64_t rows, int servers) {
    for (int server = 0; server < servers; ++server) {
      EXPECT_GE(rows_of(rows, servers).rows_of(server), rows / servers);
      EXPECT_LE(rows_of(rows, servers).rows_of(server), (rows + servers - 1) / servers);
    }
  });
}

// What a server has of a range: those rows of it that it has at all, a stride apart.
TEST_P(RowsOf, OfARangeAreThoseThatLieInIt) {
  std::mt19937_64 random(1);
  for_each_size([&](int64_t rows, int servers) {
    const TableRows all = rows_of(rows, servers);
    for (int i = 0; i < 20; ++i) {
      const auto begin = static_cast<int64_t>(random() % static_cast<uint64_t>(rows + 1));
      const auto end =
          begin + static_cast<int64_t>(random() % static_cast<uint64_t>(rows - begin + 1));
      for (int server = 0; server < servers; ++server) {
        std::vector<int64_t> expected, got;
        for (int64_t own = 0; own < all.rows_of(server); ++own)
          if (const int64_t row = all.row(server, own); row >= begin && row < end)
            expected.push_back(row);
        const ops::Range own = all.own(server, {begin, end});
        for (int64_t each = 0; each < own.size(); ++each)
          got.push_back(all.row(server, own.begin) + each * all.stride());
        EXPECT_EQ(got, expected) << begin << " to " << end << " of " << rows << ", server "
                                 << server << " of " << servers;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Shardings, RowsOf, testing::Values(Sharding::kByBlock, Sharding::kByKey));

// As many rows as a table may have: nothing overflows.
TEST(TableRowsOf, TheLargestTableAreStillThere) {
  const int64_t rows = int64_t{1} << 40;
  for (const Sharding sharding : {Sharding::kByBlock, Sharding::kByKey}) {
    const TableRows all({.name = "values", .rows = rows, .sharding = sharding}, 1000);
    int64_t sum = 0;
    for (int server = 0; server < 1000; ++server) sum += all.rows_of(server);
    EXPECT_EQ(sum, rows);
  }
}

}  // namespace
}  // namespace kerf::schedmp
