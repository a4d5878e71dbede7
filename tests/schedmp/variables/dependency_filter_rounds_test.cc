// The dependency filter over thousands of random rounds: variables with random correlations, sets
// that retire out of order, answers that are late, a memory that forgets.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "schedmp/variables/dependency_filter.h"
#include "schedmp/variables/priority_sampler.h"

namespace kerf::schedmp {
namespace {

struct Scene {
  int64_t variables = 0;
  double dependent = 0;  // share of the pairs
  int64_t depth = 0;     // sets in flight
  int64_t size = 0;      // of a set
  int late = 0;          // rounds until an answer is learned, at most
  int64_t most_known = 0;
};

// A round draws, asks, learns, chooses a set and retires some, as a program would.
class Rounds {
 public:
  Rounds(const Scene& scene, uint32_t seed)
      : scene_(scene),
        chance_(seed),
        sampler_(scene.variables, seed),
        filter_({.threshold = 0.25, .most_known = scene.most_known, .patience = kPatience}),
        times_(static_cast<size_t>(scene.variables)) {
    for (int64_t v = 0; v < scene.variables; ++v)
      for (int64_t w = 0; w < v; ++w) {
        const double share = static_cast<double>(chance_() % 1000) / 1000;
        const double size = share < scene.dependent ? 0.26 + 0.7 * share : 0.25 * share;
        correlation_[{w, v}] = chance_() % 2 == 0 ? size : -size;
      }
  }

  void round(int64_t number) {
    const auto candidates = sampler_.draw(2 * scene_.size - filter_.waiting());
    for (const int64_t v : candidates) waits_since_[v] = number;
    filter_.queue(candidates);
    ask(number);
    learn(number);
    if (std::ssize(in_flight_) < scene_.depth) choose(number);
    expect_independent();
    expect_nobody_waits_long(number);
    // One that has to go goes; others as they please, whichever was first.
    if (std::ssize(in_flight_) == scene_.depth || chance_() % 3 == 0) retire();
  }

  const std::vector<int64_t>& times() const { return times_; }
  int64_t sets() const { return sets_; }
  int64_t joined() const { return joined_; }  // variables

 private:
  static constexpr int kPatience = 4;

  double correlation(int64_t v, int64_t w) const { return correlation_.at(std::minmax(v, w)); }

  void ask(int64_t number) {
    const WantedBlock asked = filter_.wanted(200);
    std::vector<double> answer;
    for (const int64_t row : asked.rows)
      for (const int64_t column : asked.columns)
        answer.push_back(row == column ? 1 : correlation(row, column));
    if (!asked.empty())
      answers_.emplace(number + static_cast<int64_t>(chance_() % (scene_.late + 1)),
                       std::pair(asked, answer));
  }

  void learn(int64_t number) {
    while (!answers_.empty() && answers_.begin()->first <= number) {
      const auto& [asked, answer] = answers_.begin()->second;
      filter_.learn(asked, answer);
      answers_.erase(answers_.begin());
    }
  }

  void choose(int64_t number) {
    const auto set = filter_.accept(number, scene_.size);
    ASSERT_LE(std::ssize(set), scene_.size);
    if (set.empty()) return;
    ++sets_;
    joined_ += std::ssize(set);
    in_flight_[number] = set;
    for (const int64_t v : set) {
      waits_since_.erase(v);
      ++times_[static_cast<size_t>(v)];
    }
  }

  void retire() {
    if (in_flight_.empty()) return;
    const auto set =
        std::next(in_flight_.begin(), static_cast<int64_t>(chance_() % in_flight_.size()));
    for (const int64_t v : set->second)
      sampler_.result(v, static_cast<double>(chance_() % 100) * (v % 5 == 0 ? 1 : 0.01));
    filter_.retire(set->first);
    in_flight_.erase(set);
  }

  void expect_independent() const {
    std::vector<int64_t> under_way;
    for (const auto& [id, set] : in_flight_)
      under_way.insert(under_way.end(), set.begin(), set.end());
    for (size_t i = 0; i < under_way.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        ASSERT_NE(under_way[i], under_way[j]);
        ASSERT_LE(std::abs(correlation(under_way[i], under_way[j])), 0.25);
      }
  }

  // Whoever is in front joins when the filter has lost patience and those in flight by then have
  // retired, which takes some rounds by chance; so do all behind it, in turn.
  void expect_nobody_waits_long(int64_t number) const {
    const int64_t in_front = kPatience + 5 * scene_.depth;
    for (const auto& [v, since] : waits_since_)
      ASSERT_LT(number - since, 2 * scene_.size * in_front) << "variable " << v;
  }

  Scene scene_;
  std::mt19937 chance_;
  PrioritySampler sampler_;
  DependencyFilter filter_;
  std::map<std::pair<int64_t, int64_t>, double> correlation_;
  // By the round in which they come.
  std::multimap<int64_t, std::pair<WantedBlock, std::vector<double>>> answers_;
  std::map<int64_t, std::vector<int64_t>> in_flight_;
  std::map<int64_t, int64_t> waits_since_;
  std::vector<int64_t> times_;
  int64_t sets_ = 0, joined_ = 0;
};

class FilteredRounds : public testing::TestWithParam<Scene> {};

TEST_P(FilteredRounds, NoTwoUnderWayDependOnEachOtherAndNobodyStarves) {
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    Rounds rounds(GetParam(), seed);
    for (int64_t number = 0; number < 3000; ++number) {
      ASSERT_NO_FATAL_FAILURE(rounds.round(number)) << "round " << number << ", seed " << seed;
    }
    EXPECT_GT(*std::min_element(rounds.times().begin(), rounds.times().end()), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Scenes, FilteredRounds,
                         testing::Values(Scene{40, 0.1, 4, 4, 0, 100},  // answers at once
                                         Scene{60, 0.1, 4, 8, 3, 100},  // late
                                         Scene{30, 0.6, 3, 4, 2, 100},  // hardly two go together
                                         Scene{60, 0.02, 6, 6, 2, 50},  // not enough memory
                                         Scene{20, 1.0, 3, 4, 1, 100},  // none go together
                                         Scene{50, 0.0, 2, 1, 1, 4}));  // sets of one, no memory

// Where hardly anything depends, and answers are as late as sets are deep, sets are as large as
// they may be once all is known.
TEST(FilteredRounds, FillsSetsOfIndependentVariables) {
  Rounds rounds({400, 0.002, 4, 10, 4, 400}, 5);
  for (int64_t number = 0; number < 500; ++number) ASSERT_NO_FATAL_FAILURE(rounds.round(number));
  const int64_t sets = rounds.sets(), joined = rounds.joined();
  for (int64_t number = 500; number < 1000; ++number) ASSERT_NO_FATAL_FAILURE(rounds.round(number));
  EXPECT_GT(static_cast<double>(rounds.joined() - joined),
            9.5 * static_cast<double>(rounds.sets() - sets));
}

TEST(FilteredRounds, RepeatThemselvesBySeed) {
  const auto times = [](uint32_t seed) {
    Rounds rounds({60, 0.1, 4, 8, 3, 40}, seed);
    for (int64_t number = 0; number < 300; ++number) rounds.round(number);
    return rounds.times();
  };
  EXPECT_EQ(times(1), times(1));
  EXPECT_NE(times(1), times(2));
}

}  // namespace
}  // namespace kerf::schedmp
