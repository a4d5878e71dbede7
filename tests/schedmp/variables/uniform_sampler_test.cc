#include "schedmp/variables/uniform_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "ops/random.h"
#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

// Draws and is done with variables at random, out of order, for so many sets; tells what was drawn.
template <class Seen>
void play(UniformSampler& sampler, int sets, int64_t most, const Seen& seen) {
  std::mt19937 chance(7);
  std::vector<int64_t> under_way;
  for (int i = 0; i < sets; ++i) {
    const auto set = sampler.draw(1 + chance() % most);
    seen(set, under_way);
    under_way.insert(under_way.end(), set.begin(), set.end());
    for (auto finished = chance() % (2 * most); finished > 0 && !under_way.empty(); --finished) {
      std::swap(under_way[chance() % under_way.size()], under_way.back());
      sampler.done(under_way.back());
      under_way.pop_back();
    }
  }
}

TEST(UniformSampler, DrawsAPermutationEachPass) {
  UniformSampler sampler(100, 3);
  for (int64_t pass = 0; pass < 4; ++pass) {
    std::vector<int64_t> drawn;
    while (drawn.size() < 100)
      for (const int64_t variable : sampler.draw(10)) {
        drawn.push_back(variable);
        sampler.done(variable);
      }
    EXPECT_EQ(drawn, ops::permutation(100, 3, pass));
  }
}

TEST(UniformSampler, NeverDrawsWhatIsUnderWayAndNoVariableTwiceInASet) {
  for (const int64_t variables : {1, 5, 40}) {
    UniformSampler sampler(variables, 1);
    play(sampler, 3000, 12, [](const auto& set, const auto& under_way) {
      std::set<int64_t> together(under_way.begin(), under_way.end());
      together.insert(set.begin(), set.end());
      ASSERT_EQ(together.size(), under_way.size() + set.size());
    });
    EXPECT_GT(sampler.pass(), 50);
  }
}

TEST(UniformSampler, DrawsAllVariablesEquallyOften) {
  UniformSampler sampler(40, 1);
  std::vector<int64_t> times(40);
  play(sampler, 3000, 12, [&](const auto& set, const auto&) {
    for (const int64_t variable : set) ++times[static_cast<size_t>(variable)];
    const auto [fewest, most] = std::minmax_element(times.begin(), times.end());
    ASSERT_LE(*most - *fewest, 1);
  });
}

// Where it may, it fills a set with the beginning of the next pass.
TEST(UniformSampler, FillsASetOverTheEndOfAPass) {
  UniformSampler sampler(10, 5);
  for (const int64_t variable : sampler.draw(7)) sampler.done(variable);
  const auto over = sampler.draw(7);
  EXPECT_EQ(over.size(), 7);
  EXPECT_EQ(sampler.pass(), 1);
}

TEST(UniformSampler, DrawsNothingWhileAllIsUnderWay) {
  UniformSampler sampler(6, 5);
  const auto all = sampler.draw(10);
  EXPECT_EQ(all.size(), 6);
  EXPECT_THAT(sampler.draw(3), testing::IsEmpty());
  sampler.done(all[4]);
  EXPECT_THAT(sampler.draw(3), testing::ElementsAre(all[4]));
}

// Each variable's place in a pass is uniform: 16 places, 4,000 passes, 15 degrees of freedom.
TEST(UniformSampler, HasNoFavourites) {
  UniformSampler sampler(16, 11);
  std::vector<double> first(16);
  for (int pass = 0; pass < 4000; ++pass) {
    const auto order = sampler.draw(16);
    ++first[static_cast<size_t>(order[0])];
    for (const int64_t variable : order) sampler.done(variable);
  }
  double chi_square = 0;
  for (const double count : first) chi_square += (count - 250) * (count - 250) / 250;
  EXPECT_LT(chi_square, 37.7) << "exceeded by chance once in a thousand seeds";
}

TEST(UniformSampler, RepeatsItselfBySeed) {
  const auto drawn = [](uint64_t seed) {
    UniformSampler sampler(50, seed);
    std::vector<int64_t> all;
    play(sampler, 100, 9,
         [&](const auto& set, const auto&) { all.insert(all.end(), set.begin(), set.end()); });
    return all;
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
}

TEST(UniformSampler, RefusesWhatIsNotUnderWay) {
  EXPECT_EQ(tests::error_of([] { UniformSampler(0, 1); })->code(), ErrorCode::kUsage);
  UniformSampler sampler(3, 1);
  const int64_t variable = sampler.draw(1)[0];
  sampler.done(variable);
  for (const int64_t wrong : {variable, int64_t{-1}, int64_t{3}})
    EXPECT_EQ(tests::error_of([&] { sampler.done(wrong); })->code(), ErrorCode::kInternal);
}

}  // namespace
}  // namespace kerf::schedmp
