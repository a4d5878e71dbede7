#include "schedmp/selection/dependency_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using Variables = std::vector<int64_t>;

constexpr int64_t kAny = 1000;  // correlations in a block

// Answers what is wanted: pairs in `dependent` have this correlation, others none.
void answer(DependencyFilter& filter,
            const std::vector<std::pair<int64_t, int64_t>>& dependent = {},
            double correlation = 0.9) {
  for (;;) {
    const WantedPairs wanted = filter.wanted(kAny);
    if (wanted.rows.empty()) return;
    GramBlock block{wanted.rows, wanted.columns, {}};
    for (const int64_t row : block.rows)
      for (const int64_t column : block.columns) {
        const bool found = std::any_of(dependent.begin(), dependent.end(), [&](const auto& pair) {
          return pair == std::pair(row, column) || pair == std::pair(column, row);
        });
        block.correlations.push_back(found ? correlation : 0);
      }
    filter.learn(block);
  }
}

// The scene of the header.
TEST(DependencyFilter, KeepsWhatDependsInFront) {
  DependencyFilter filter({});
  filter.queue(Variables{7, 3, 9, 4});
  answer(filter, {{3, 7}});
  EXPECT_THAT(filter.accept(1, 2), ElementsAre(7, 9));
  EXPECT_EQ(filter.waiting(), 2);
  filter.queue(Variables{5});
  answer(filter);
  filter.retire(1);
  EXPECT_THAT(filter.accept(2, 10), ElementsAre(3, 4, 5));
}

// Not only in the set that was chosen last.
TEST(DependencyFilter, LooksAtEverySetInFlight) {
  DependencyFilter filter({});
  filter.queue(Variables{1, 2, 3, 4});
  answer(filter, {{1, 4}});
  EXPECT_THAT(filter.accept(10, 1), ElementsAre(1));
  EXPECT_THAT(filter.accept(11, 1), ElementsAre(2));
  EXPECT_THAT(filter.accept(12, 2), ElementsAre(3));
  filter.retire(12);
  filter.retire(11);
  EXPECT_THAT(filter.accept(13, 2), IsEmpty());
  filter.retire(10);
  EXPECT_THAT(filter.accept(13, 2), ElementsAre(4));
}

TEST(DependencyFilter, AcceptsUpToTheThresholdOfEitherSign) {
  for (const auto& [correlation, accepted] : std::vector<std::pair<double, size_t>>{
           {0.25, 2}, {-0.25, 2}, {0.2500001, 1}, {-0.2500001, 1}, {1, 1}, {0, 2}}) {
    DependencyFilter filter({.threshold = 0.25});
    filter.queue(Variables{1, 2});
    answer(filter, {{1, 2}}, correlation);
    EXPECT_EQ(filter.accept(0, 2).size(), accepted) << correlation;
  }
}

TEST(DependencyFilter, AVariableIsUnderWayOnce) {
  DependencyFilter filter({});
  filter.queue(Variables{6, 6});
  filter.learn({{5, 6}, {5, 6}, {0, 0, 0, 0}});
  EXPECT_THAT(filter.wanted(kAny).rows, IsEmpty());
  EXPECT_THAT(filter.accept(0, 2), ElementsAre(6));
  EXPECT_THAT(filter.accept(1, 2), IsEmpty());
  filter.retire(0);
  EXPECT_THAT(filter.accept(1, 2), ElementsAre(6));
}

TEST(DependencyFilter, WhatIsNotKnownWaits) {
  DependencyFilter filter({});
  filter.queue(Variables{1, 2, 3});
  EXPECT_THAT(filter.accept(0, 3), ElementsAre(1));
  const WantedPairs wanted = filter.wanted(kAny);
  EXPECT_THAT(wanted.rows, ElementsAre(2, 3));
  EXPECT_THAT(wanted.columns, UnorderedElementsAre(1, 2));
  EXPECT_THAT(filter.wanted(kAny).rows, IsEmpty()) << "the answer is on its way";
  EXPECT_THAT(filter.accept(1, 3), IsEmpty());
  filter.learn({wanted.rows, wanted.columns, {0, 0, 0, 0}});
  EXPECT_THAT(filter.accept(1, 3), ElementsAre(2, 3));
}

TEST(DependencyFilter, AsksForBlocksWithinABound) {
  for (const int64_t most : {1, 2, 7, 50}) {
    DependencyFilter filter({});
    Variables all;
    for (int64_t v = 0; v < 20; ++v) all.push_back(v);
    filter.queue(all);
    for (;;) {
      const WantedPairs wanted = filter.wanted(most);
      if (wanted.rows.empty()) break;
      const auto correlations = wanted.rows.size() * wanted.columns.size();
      ASSERT_LE(correlations, static_cast<size_t>(most));
      filter.learn({wanted.rows, wanted.columns, std::vector<double>(correlations)});
    }
    EXPECT_EQ(filter.accept(0, 20), all) << "every pair was asked for";
  }
}

TEST(DependencyFilter, AsksAgainForWhatWasForgotten) {
  DependencyFilter filter({.most_pairs = 2});
  filter.queue(Variables{1, 2, 3});
  for (int time = 0; time < 3; ++time) {
    const WantedPairs wanted = filter.wanted(kAny);
    EXPECT_THAT(wanted.rows, testing::Not(IsEmpty()));
    filter.learn({wanted.rows, wanted.columns,
                  std::vector<double>(wanted.rows.size() * wanted.columns.size())});
  }
}

// Variable 0 depends on all others, of which one is always in flight.
TEST(DependencyFilter, StarvesNobodyWhoDependsOnEveryone) {
  constexpr int kPatience = 5;
  DependencyFilter filter({.patience = kPatience});
  std::vector<std::pair<int64_t, int64_t>> dependent;
  for (int64_t v = 1; v < 100; ++v) dependent.emplace_back(0, v);
  filter.queue(Variables{1, 0});
  int64_t round = 0;
  for (; round < 90; ++round) {
    filter.queue(Variables{round + 2});
    answer(filter, dependent);
    const auto set = filter.accept(round, 1);
    if (set == Variables{0}) break;
    if (round > 0) filter.retire(round - 1);
    if (set.empty()) break;
  }
  EXPECT_EQ(round, kPatience + 1) << "then nobody else joined";
  EXPECT_THAT(filter.accept(round, 1), ElementsAre(0));
}

// Nobody answers, and there is no memory for what is known: sets of one, each in its turn.
TEST(DependencyFilter, StarvesNobodyWithoutAnswers) {
  DependencyFilter filter({.most_pairs = 2, .patience = 2});
  Variables joined;
  for (int64_t round = 0; round < 60; ++round) {
    filter.queue(Variables{round});
    const auto set = filter.accept(round, 4);
    joined.insert(joined.end(), set.begin(), set.end());
    if (!set.empty()) filter.retire(round);
  }
  ASSERT_EQ(joined.size(), 60);
  for (int64_t v = 0; v < 60; ++v) EXPECT_EQ(joined[static_cast<size_t>(v)], v);
}

// What joined behind an elder was known not to depend on it, and need not be known any longer.
TEST(DependencyFilter, StarvesNobodyByForgetting) {
  DependencyFilter filter({.most_pairs = 4, .patience = 0});
  filter.queue(Variables{1, 0, 2});
  EXPECT_THAT(filter.accept(1, 1), ElementsAre(1));
  filter.learn({{2}, {0, 1}, {0, 0}});
  EXPECT_THAT(filter.accept(2, 1), ElementsAre(2)) << "0 and 1 are not known";
  filter.retire(1);
  filter.learn({{11, 12}, {13, 14}, {0, 0, 0, 0}});
  EXPECT_THAT(filter.accept(3, 1), ElementsAre(0));
}

TEST(DependencyFilter, RefusesWhatCannotBe) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto code_of = [](const auto& body) { return tests::error_of(body).value().code(); };
  for (const double threshold : {-0.1, 1.0, nan})
    EXPECT_EQ(code_of([&] { DependencyFilter({.threshold = threshold}); }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([] { DependencyFilter({.most_pairs = 1}); }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([] { DependencyFilter({.patience = -1}); }), ErrorCode::kUsage);
  DependencyFilter filter({});
  for (const double odd : {nan, std::numeric_limits<double>::infinity()})
    EXPECT_EQ(code_of([&] { filter.learn({{1}, {2}, {odd}}); }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([&] { filter.learn({{1}, {2, 3}, {0.5}}); }), ErrorCode::kInternal);
  EXPECT_EQ(code_of([&] { filter.retire(3); }), ErrorCode::kInternal);
  EXPECT_EQ(code_of([&] { filter.wanted(0); }), ErrorCode::kInternal);
  filter.queue(Variables{1, 2});
  filter.accept(3, 1);
  EXPECT_EQ(code_of([&] { filter.accept(3, 1); }), ErrorCode::kInternal);
}

}  // namespace
}  // namespace kerf::schedmp
