#include "schedmp/selection/pair_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

// Beside a map of the standard library, through several times of growing.
TEST(PairTable, IsAMap) {
  std::mt19937 chance(6);
  for (const int64_t variables : {3, 40, 2000}) {
    PairTable table;
    std::map<std::pair<int64_t, int64_t>, double> map;
    const auto draw = [&] { return static_cast<int64_t>(chance()) % variables; };
    for (int step = 0; step < 50'000; ++step) {
      const int64_t a = draw(), b = draw();
      if (a != b && chance() % 2 == 0) {
        table.set(a, b, step);
        map[std::minmax(a, b)] = step;
      }
      const int64_t c = draw(), d = draw();
      const double* found = table.find(c, d);
      const auto expected = map.find(std::minmax(c, d));
      ASSERT_EQ(found != nullptr, expected != map.end()) << c << ", " << d;
      if (found != nullptr) {
        ASSERT_EQ(*found, expected->second);
      }
    }
    EXPECT_EQ(table.size(), std::ssize(map));
  }
}

TEST(PairTable, RefusesWhatIsNoPair) {
  PairTable table;
  for (const int64_t other : {int64_t{-1}, int64_t{1} << 32, int64_t{5}})
    EXPECT_TRUE(tests::error_of([&] { table.set(5, other, 0); })) << other;
  EXPECT_EQ(table.find(0, 0), nullptr);
  table.set(0, (int64_t{1} << 32) - 1, 3);
  EXPECT_EQ(*table.find((int64_t{1} << 32) - 1, 0), 3);
}

}  // namespace
}  // namespace kerf::schedmp
