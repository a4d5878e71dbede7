#include "schedmp/variables/dependency_filter.h"

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

using Pairs = std::vector<std::pair<int64_t, int64_t>>;

std::vector<double> answer_to(const WantedBlock& asked, const Pairs& dependent,
                              double correlation = 0.9) {
  std::vector<double> answer;
  for (const int64_t row : asked.rows)
    for (const int64_t column : asked.columns) {
      const bool found = std::any_of(dependent.begin(), dependent.end(), [&](const auto& pair) {
        return pair == std::pair(row, column) || pair == std::pair(column, row);
      });
      answer.push_back(row == column ? 1 : found ? correlation : 0);
    }
  return answer;
}

// Answers what is wanted: pairs in `dependent` have this correlation, others none.
void answer(DependencyFilter& filter, const Pairs& dependent = {}, double correlation = 0.9) {
  for (;;) {
    const WantedBlock wanted = filter.wanted(kAny);
    if (wanted.empty()) return;
    filter.learn(wanted, answer_to(wanted, dependent, correlation));
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
  answer(filter, {{3, 7}});
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

TEST(DependencyFilter, AVariableIsInFlightOnce) {
  DependencyFilter filter({});
  filter.queue(Variables{6, 6});
  answer(filter);
  EXPECT_THAT(filter.accept(0, 2), ElementsAre(6));
  EXPECT_THAT(filter.accept(1, 2), IsEmpty());
  filter.retire(0);
  EXPECT_THAT(filter.accept(1, 2), ElementsAre(6));
}

TEST(DependencyFilter, WhatIsNotKnownWaits) {
  DependencyFilter filter({});
  filter.queue(Variables{1});
  answer(filter);
  filter.queue(Variables{2, 3});
  EXPECT_THAT(filter.accept(0, 3), ElementsAre(1));
  const WantedBlock wanted = filter.wanted(kAny);
  EXPECT_THAT(wanted.rows, ElementsAre(2, 3));
  EXPECT_THAT(wanted.columns, UnorderedElementsAre(1, 2, 3));
  EXPECT_TRUE(filter.wanted(kAny).empty()) << "the answer is on its way";
  EXPECT_THAT(filter.accept(1, 3), IsEmpty());
  filter.learn(wanted, answer_to(wanted, {{1, 2}}));
  EXPECT_THAT(filter.accept(1, 3), ElementsAre(3));
}

// Each pair of variables is brought by the answer to the one that was asked for later.
TEST(DependencyFilter, AnswersMayComeInAnyOrder) {
  const Pairs dependent = {{1, 2}, {2, 3}, {1, 4}, {3, 4}};
  std::vector<size_t> order = {0, 1, 2, 3};
  do {
    DependencyFilter filter({});
    std::vector<WantedBlock> asked;
    for (const int64_t variable : {1, 2, 3, 4}) {
      filter.queue(Variables{variable});
      asked.push_back(filter.wanted(kAny));
    }
    for (const size_t each : order) filter.learn(asked[each], answer_to(asked[each], dependent));
    EXPECT_THAT(filter.accept(0, 4), ElementsAre(1, 3));
    EXPECT_THAT(filter.accept(1, 4), IsEmpty());
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(DependencyFilter, AsksForBlocksWithinABound) {
  for (const int64_t most : {1, 30, 60, 500}) {
    DependencyFilter filter({});
    Variables all;
    for (int64_t v = 0; v < 20; ++v) all.push_back(v);
    filter.queue(all);
    int64_t rows = 0;
    for (;;) {
      const WantedBlock wanted = filter.wanted(most);
      if (wanted.empty()) break;
      rows += std::ssize(wanted.rows);
      if (wanted.rows.size() > 1) {
        EXPECT_LE(std::ssize(wanted.rows) * std::ssize(wanted.columns), most);
      }
      filter.learn(wanted, answer_to(wanted, {}));
    }
    EXPECT_EQ(rows, 20) << "each is asked for once";
    EXPECT_EQ(filter.accept(0, 20), all);
  }
}

// Of three variables that it may know it forgets the one that was in flight longest ago, and asks
// for that again.
TEST(DependencyFilter, ForgetsWhatWasInFlightLongestAgo) {
  const Pairs dependent = {{1, 4}, {2, 4}};
  DependencyFilter filter({.most_known = 3});
  for (const int64_t variable : {1, 2, 3}) {
    filter.queue(Variables{variable});
    answer(filter, dependent);
    EXPECT_THAT(filter.accept(variable, 1), ElementsAre(variable));
    filter.retire(variable);
  }
  filter.queue(Variables{4, 2});
  const WantedBlock wanted = filter.wanted(kAny);
  EXPECT_THAT(wanted.rows, ElementsAre(4));
  EXPECT_THAT(wanted.columns, UnorderedElementsAre(2, 3, 4)) << "2 waits, and 1 is the oldest";
  filter.learn(wanted, answer_to(wanted, dependent));
  EXPECT_THAT(filter.accept(9, 3), ElementsAre(4));
  filter.queue(Variables{1});
  const WantedBlock again = filter.wanted(kAny);
  EXPECT_THAT(again.rows, ElementsAre(1));
  EXPECT_THAT(again.columns, UnorderedElementsAre(1, 2, 4));
  filter.learn(again, answer_to(again, dependent));
  EXPECT_THAT(filter.accept(10, 3), IsEmpty());
}

// An answer that comes after one of its columns was forgotten, and asked for again.
TEST(DependencyFilter, AnOldAnswerSaysNothingOfWhatWasForgotten) {
  DependencyFilter filter({.most_known = 2});
  filter.queue(Variables{1});
  answer(filter);
  filter.accept(0, 1);
  filter.retire(0);
  filter.queue(Variables{2});
  const WantedBlock old = filter.wanted(kAny);
  EXPECT_THAT(old.columns, UnorderedElementsAre(1, 2));
  filter.queue(Variables{3});
  const WantedBlock third = filter.wanted(kAny);
  EXPECT_THAT(third.columns, UnorderedElementsAre(2, 3)) << "in the place of 1";
  filter.learn(old, answer_to(old, {{1, 2}}));
  filter.learn(third, answer_to(third, {}));
  EXPECT_THAT(filter.accept(1, 2), ElementsAre(2, 3));
}

// All that it may know waits or is in flight: the next one waits for a place.
TEST(DependencyFilter, WaitsForAPlace) {
  DependencyFilter filter({.most_known = 1});
  filter.queue(Variables{1, 2});
  answer(filter);
  EXPECT_THAT(filter.accept(0, 2), ElementsAre(1));
  EXPECT_TRUE(filter.wanted(kAny).empty());
  filter.retire(0);
  answer(filter);
  EXPECT_THAT(filter.accept(1, 2), ElementsAre(2));
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

// Where nothing joins, nobody is passed over.
TEST(DependencyFilter, LosesPatienceBySetsNotByCalls) {
  DependencyFilter filter({.patience = 3});
  filter.queue(Variables{1, 2});
  answer(filter, {{1, 2}, {2, 3}});
  EXPECT_THAT(filter.accept(0, 1), ElementsAre(1));
  for (int call = 0; call < 9; ++call) EXPECT_THAT(filter.accept(1, 1), IsEmpty());
  filter.queue(Variables{3});
  answer(filter, {{1, 2}, {2, 3}});
  EXPECT_THAT(filter.accept(1, 1), ElementsAre(3));
}

TEST(DependencyFilter, RefusesWhatCannotBe) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto code_of = [](const auto& body) { return tests::error_of(body).value().code(); };
  for (const double threshold : {-0.1, 1.0, nan})
    EXPECT_EQ(code_of([&] { DependencyFilter({.threshold = threshold}); }), ErrorCode::kUsage);
  for (const int64_t known : {int64_t{0}, int64_t{1} << 21})
    EXPECT_EQ(code_of([&] { DependencyFilter({.most_known = known}); }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([] { DependencyFilter({.patience = -1}); }), ErrorCode::kUsage);
  for (const double odd : {nan, std::numeric_limits<double>::infinity(), 1.1, -37.0}) {
    DependencyFilter filter({});
    filter.queue(Variables{1, 2});
    const WantedBlock asked = filter.wanted(kAny);
    EXPECT_EQ(code_of([&] {
                filter.learn(asked, answer_to(asked, {{1, 2}}, odd));
              }),
              ErrorCode::kUsage);
  }
  DependencyFilter filter({});
  filter.queue(Variables{1, 2});
  const WantedBlock asked = filter.wanted(kAny);
  const std::vector<double> lengths = {0.01, 0, 0, 1};  // not divided by their lengths
  EXPECT_EQ(code_of([&] { filter.learn(asked, lengths); }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([&] { filter.learn(asked, std::vector<double>{1}); }), ErrorCode::kInternal);
  filter.learn(asked, answer_to(asked, {}));
  EXPECT_EQ(code_of([&] { filter.learn(asked, answer_to(asked, {})); }), ErrorCode::kInternal);
  EXPECT_EQ(code_of([&] { filter.retire(3); }), ErrorCode::kInternal);
  EXPECT_EQ(code_of([&] { filter.wanted(0); }), ErrorCode::kInternal);
  filter.accept(3, 1);
  EXPECT_EQ(code_of([&] { filter.accept(3, 1); }), ErrorCode::kInternal);
}

}  // namespace
}  // namespace kerf::schedmp
