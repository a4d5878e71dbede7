// The three ways to choose sets, each driven as a program would: rounds that overlap, results in
// order.
#include "schedmp/variables/variable_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>

#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

using testing::IsEmpty;

VariableSetOptions options_of(Sampling sampling, int64_t variables, int64_t size) {
  VariableSetOptions options;
  options.sampling = sampling;
  options.variables = variables;
  options.size = size;
  return options;
}

// Neighbours depend on each other.
double correlation(int64_t v, int64_t w) { return v == w ? 1 : std::abs(v - w) == 1 ? 0.5 : 0; }

class Driven {
 public:
  using Delta = std::function<double(int64_t variable)>;
  Driven(const VariableSetOptions& options, size_t depth, Delta delta)
      : sets(options), depth_(depth), delta_(std::move(delta)) {}

  // One more round under way, and as many folded in as there are too many.
  void next() {
    VariableSets::Chosen chosen = sets.choose(number_);
    if (!chosen.empty()) under_way_.emplace_back(number_++, chosen);
    while (under_way_.size() > (chosen.empty() ? 0 : depth_ - 1)) fold();
  }
  std::vector<int64_t> changing() const {
    std::vector<int64_t> all;
    for (const auto& [number, chosen] : under_way_)
      all.insert(all.end(), chosen.set.begin(), chosen.set.end());
    return all;
  }
  const VariableSets::Chosen& last() const { return under_way_.back().second; }
  bool idle() const { return under_way_.empty(); }

  VariableSets sets;
  std::vector<int64_t> times;  // that each variable changed

 private:
  void fold() {
    const auto [number, chosen] = under_way_.front();
    under_way_.pop_front();
    std::vector<double> deltas;
    for (const auto* part : {&chosen.set, &chosen.looked_at})
      for (const int64_t variable : *part) deltas.push_back(delta_(variable));
    for (const int64_t variable : chosen.set) {
      times.resize(std::max(times.size(), static_cast<size_t>(variable) + 1));
      ++times[static_cast<size_t>(variable)];
    }
    sets.fold(number, deltas);
    if (chosen.wanted.empty()) return;
    std::vector<double> answer;
    for (const int64_t row : chosen.wanted.rows)
      for (const int64_t column : chosen.wanted.columns) answer.push_back(correlation(row, column));
    sets.learn(chosen.wanted, answer);
  }

  size_t depth_;
  Delta delta_;
  int64_t number_ = 0;
  std::deque<std::pair<int64_t, VariableSets::Chosen>> under_way_;
};

TEST(VariableSets, UniformTakesEachOnceAPass) {
  Driven rounds(options_of(Sampling::kUniform, 60, 10), 3, [](int64_t) { return 1; });
  for (int round = 0; round < 6 + 2; ++round) rounds.next();
  EXPECT_THAT(rounds.times, testing::Each(testing::Ge(1)));
}

TEST(VariableSets, PriorityTakesNeighboursTogether) {
  Driven rounds(options_of(Sampling::kPriority, 10, 10), 1, [](int64_t) { return 1; });
  EXPECT_EQ(rounds.sets.choose(0).set.size(), 10);
}

TEST(VariableSets, FilteredOnesThatChangeTogetherDependOnNobody) {
  for (const size_t depth : {1, 2, 4}) {
    Driven rounds(options_of(Sampling::kPriorityFiltered, 64, 6), depth,
                  [](int64_t v) { return v % 3 == 0 ? 0.0 : static_cast<double>(v); });
    for (int round = 0; round < 3000; ++round) {
      rounds.next();
      const std::vector<int64_t> changing = rounds.changing();
      for (size_t i = 0; i < changing.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          ASSERT_EQ(correlation(changing[i], changing[j]), 0) << "in round " << round;
    }
    // Those that stand still never change; all others do.
    for (size_t v = 0; v < rounds.times.size(); ++v)
      EXPECT_EQ(rounds.times[v] > 0, v % 3 != 0) << v;
  }
}

// Of two that depend on each other and change, among many that stand still, both have their turns.
TEST(VariableSets, StarveNobodyAmongMany) {
  Driven rounds(options_of(Sampling::kPriorityFiltered, 90, 4), 4,
                [](int64_t v) { return v == 20 || v == 21 ? 1.0 : 0.0; });
  for (int round = 0; round < 400; ++round) rounds.next();
  ASSERT_GT(rounds.times.size(), 21);
  EXPECT_GT(rounds.times[20], 20);
  EXPECT_GT(rounds.times[21], 20);
}

// Where nothing would change, all is looked at and nothing asked.
TEST(VariableSets, LookAtWhatStandsStill) {
  Driven rounds(options_of(Sampling::kPriorityFiltered, 20, 5), 1, [](int64_t) { return 0; });
  for (int round = 0; round < 50; ++round) {
    const VariableSets::Chosen chosen = rounds.sets.choose(round);
    EXPECT_THAT(chosen.set, IsEmpty());
    EXPECT_EQ(chosen.looked_at.size(), 5);
    EXPECT_TRUE(chosen.wanted.empty());
    rounds.sets.fold(round, std::vector<double>(5));
  }
}

// Deltas that are known otherwise are worth as much as a pass.
TEST(VariableSets, RestartsFromDeltasThatAreKnown) {
  VariableSetOptions options = options_of(Sampling::kPriorityFiltered, 1000, 4);
  options.floor = 1e-6;
  VariableSets sets(options);
  std::vector<double> deltas(1000);
  for (const int64_t v : {7, 70, 170, 700}) deltas[static_cast<size_t>(v)] = 0.5;
  sets.restart(deltas);
  const VariableSets::Chosen first = sets.choose(0);
  EXPECT_THAT(first.set, IsEmpty()) << "none is known yet";
  EXPECT_THAT(first.looked_at, IsEmpty());
  EXPECT_THAT(first.wanted.rows, testing::UnorderedElementsAre(7, 70, 170, 700));
}

TEST(VariableSets, RepeatThemselvesBySeed) {
  for (const Sampling sampling :
       {Sampling::kUniform, Sampling::kPriority, Sampling::kPriorityFiltered}) {
    const auto times = [&](uint64_t seed) {
      VariableSetOptions options = options_of(sampling, 50, 4);
      options.seed = seed;
      Driven rounds(options, 3, [](int64_t v) { return std::sqrt(static_cast<double>(v)); });
      for (int round = 0; round < 200; ++round) rounds.next();
      return rounds.times;
    };
    EXPECT_EQ(times(1), times(1));
    if (sampling != Sampling::kUniform) {
      EXPECT_NE(times(1), times(2));
    }
  }
}

TEST(VariableSets, RefuseWhatCannotBe) {
  for (const Sampling sampling :
       {Sampling::kUniform, Sampling::kPriority, Sampling::kPriorityFiltered}) {
    const auto code_of = [&](const VariableSetOptions& options) {
      return tests::error_of([&] { VariableSets{options}; }).value().code();
    };
    EXPECT_EQ(code_of(options_of(sampling, 0, 4)), ErrorCode::kUsage);
    EXPECT_EQ(code_of(options_of(sampling, 10, 0)), ErrorCode::kUsage);
    VariableSets sets(options_of(sampling, 10, 4));
    EXPECT_EQ(tests::error_of([&] { sets.fold(3, {}); })->code(), ErrorCode::kInternal);
  }
}

}  // namespace
}  // namespace kerf::schedmp
