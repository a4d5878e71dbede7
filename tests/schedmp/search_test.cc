// The search for schedules: its clock against unfold.h, its bound and its exact part against all
// words there are, its answers against every built-in schedule that the cap allows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "runtime/error.h"
#include "schedmp/kept.h"
#include "schedmp/search/exact_words.h"
#include "schedmp/search/greedy_words.h"
#include "schedmp/search/schedule_search.h"
#include "schedmp/search/word_times.h"
#include "schedmp/staircase.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {
namespace {

using partitioner::chain_of_stages;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kAlike = 1e-9;  // relative

Pipeline chain(int stages) {
  std::vector<std::vector<int>> groups;
  for (int stage = 0; stage < stages; ++stage) groups.push_back({stage});
  return chain_of(groups);
}

double draw(std::mt19937& random, double least, double most) {
  return least + (most - least) * static_cast<double>(random() % 1000) / 1000;
}

SearchProblem random_problem(std::mt19937& random, int stages, int micro_batches, int most_kept) {
  SearchProblem problem{chain_of_stages(stages), micro_batches, {}, 0, {}};
  problem.transfer = random() % 2 == 0 ? 0 : draw(random, 0, 1);
  for (int stage = 0; stage < stages; ++stage) {
    problem.costs.push_back({draw(random, 0.2, 2), draw(random, 0.2, 2), draw(random, 0, 2)});
    problem.keep.push_back(1 + static_cast<int>(random() % static_cast<unsigned>(most_kept)));
  }
  return problem;
}

ActionCosts costs_of(const SearchProblem& problem) { return {problem.costs, problem.transfer}; }

// All that are legal.
void add_words(Word& word, int micro_batches, int keep, std::vector<Word>& all) {
  if (std::ssize(word) == 3 * micro_batches) {
    if (is_legal(word, micro_batches, keep)) all.push_back(word);
    return;
  }
  for (const ActionKind kind :
       {ActionKind::kForward, ActionKind::kInputGradient, ActionKind::kWeightGradient}) {
    word.push_back(kind);
    add_words(word, micro_batches, keep, all);
    word.pop_back();
  }
}

double least_of_all(const SearchProblem& problem) {
  std::vector<std::vector<Word>> all(problem.costs.size());
  Word word;
  for (size_t stage = 0; stage < all.size(); ++stage)
    add_words(word, problem.micro_batches, problem.keep[stage], all[stage]);
  WordTimes times(problem);
  std::vector<Word> words(all.size());
  double least = std::numeric_limits<double>::infinity();
  const std::function<void(size_t)> choose = [&](size_t stage) {
    if (stage == all.size()) {
      least = std::min(least, times.makespan(words));
      return;
    }
    for (const Word& each : all[stage]) {
      words[stage] = each;
      choose(stage + 1);
    }
  };
  choose(0);
  return least;
}

TEST(LeastMakespan, IsWhatNoWordsBeatAndBranchAndBoundFindsIt) {
  std::mt19937 random(1);
  for (const auto& [stages, micro_batches] :
       {std::pair(1, 3), std::pair(2, 1), std::pair(2, 2), std::pair(2, 3), std::pair(3, 2)})
    for (int tries = 0; tries < 12; ++tries) {
      const SearchProblem problem = random_problem(random, stages, micro_batches, 3);
      const double least = least_of_all(problem);
      EXPECT_LE(least_makespan(problem), least * (1 + kAlike));
      const ExactWords exact = exact_words(problem, 1e9, 1 << 20);
      EXPECT_TRUE(exact.proved);
      EXPECT_NEAR(WordTimes(problem).makespan(exact.words), least, kAlike * least)
          << stages << " stages, " << micro_batches << " micro-batches, try " << tries;
      EXPECT_THAT(exact_words(problem, least, 1 << 20).words, IsEmpty()) << "none are below it";
    }
}

// Four micro-batches of two stages: 213,444 pairs of words.
TEST(LeastMakespan, OfMoreMicroBatchesToo) {
  std::mt19937 random(2);
  const SearchProblem problem = random_problem(random, 2, 4, 4);
  const double least = least_of_all(problem);
  EXPECT_LE(least_makespan(problem), least * (1 + kAlike));
  const ExactWords exact = exact_words(problem, 1e9, 1 << 20);
  EXPECT_NEAR(WordTimes(problem).makespan(exact.words), least, kAlike * least);
}

TEST(ExactWords, AreNotProvedWhereTheChoicesEnd) {
  std::mt19937 random(3);
  EXPECT_FALSE(exact_words(random_problem(random, 3, 4, 4), 1e9, 20).proved);
}

TEST(Search, ProvesTheBestOfThreeStagesAndFourMicroBatches) {
  std::mt19937 random(6);
  for (int tries = 0; tries < 40; ++tries) {
    const SearchProblem problem = random_problem(random, 3, 4, 4);
    const FoundSchedule found =
        search_schedule(chain(3), 4, costs_of(problem), problem.keep, {.seconds = 0});
    EXPECT_TRUE(found.best) << tries;
    EXPECT_EQ(found.gap(), 0);
  }
}

TEST(Search, AnswersAreSchedulesUnderTheirCap) {
  std::mt19937 random(4);
  for (int tries = 0; tries < 40; ++tries) {
    const int stages = 1 + static_cast<int>(random() % 6);
    const int micro_batches = 1 + static_cast<int>(random() % 9);
    const SearchProblem problem = random_problem(random, stages, micro_batches, 5);
    const Pipeline pipeline = chain(stages);
    const FoundSchedule found = search_schedule(pipeline, micro_batches, costs_of(problem),
                                                problem.keep, {.seconds = 0.01});
    EXPECT_THAT(check_order(found.schedule), IsEmpty());
    const std::vector<int> kept = peak_activations(found.schedule);
    for (int stage = 0; stage < stages; ++stage)
      EXPECT_LE(kept[static_cast<size_t>(stage)], problem.keep[static_cast<size_t>(stage)]);
    EXPECT_NEAR(bubble(found.schedule, pipeline.graph, costs_of(problem)).makespan, found.makespan,
                kAlike * found.makespan);
    EXPECT_LE(found.bound, found.makespan * (1 + kAlike));
    EXPECT_EQ(parse_schedule(write_schedule(found.schedule), "found"), found.schedule);
  }
}

TEST(Search, IsNeverWorseThanWhatIsBuiltIn) {
  std::mt19937 random(5);
  for (int tries = 0; tries < 30; ++tries) {
    const int stages = 2 + static_cast<int>(random() % 6);
    const int micro_batches = 1 + static_cast<int>(random() % 20);
    const SearchProblem problem = random_problem(random, stages, micro_batches, 1);
    const Pipeline pipeline = chain(stages);
    for (const std::string name : {"naive", "1f1b", "zb-h1", "zb-h2", "gpipe"}) {
      const Schedule schedule = make_schedule(name, pipeline, micro_batches);
      const FoundSchedule found =
          search_schedule(pipeline, micro_batches, costs_of(problem), peak_activations(schedule),
                          {.seconds = 0, .most_choices = 1000});
      EXPECT_LE(found.makespan,
                bubble(schedule, pipeline.graph, costs_of(problem)).makespan * (1 + kAlike))
          << name << " " << stages << " " << micro_batches;
    }
  }
}

TEST(Search, FindsWhatZeroBubbleSchedulesAre) {
  for (const int stages : {2, 4, 6}) {
    const Pipeline pipeline = chain(stages);
    const int m = 2 * stages;
    const std::vector<int> twice(static_cast<size_t>(stages), 2 * stages - 1);
    const FoundSchedule found = search_schedule(pipeline, m, {}, twice, {.seconds = 2});
    EXPECT_NEAR(found.makespan, 3 * m + stages - 1, 1e-9);
    EXPECT_TRUE(found.best);
  }
}

// PipeDream's profiles (Narayanan et al. 2019) over eight workers as the layer cut divides them:
// milliseconds of F, and half of the backward each for I and W.
const ActionCosts kGnmt = {{{0, 0, 0},
                            {0.073, 3.4745, 3.4745},
                            {8.514, 2.78, 2.78},
                            {2.555, 2.1655, 2.1655},
                            {7.163, 5.3955, 5.3955},
                            {6.47, 5.571, 5.571},
                            {3.149, 7.9415, 7.9415},
                            {5.609, 0.6135, 0.6135}}};
const ActionCosts kResNet50 = {{{38.429, 9.925, 9.925},
                                {24.094, 16.9425, 16.9425},
                                {20.512, 18.944, 18.944},
                                {23.588, 17.343, 17.343},
                                {22.857, 17.726, 17.726},
                                {24.642, 15.8635, 15.8635},
                                {23.108, 17.427, 17.427},
                                {24.22, 16.2945, 16.2945}}};

TEST(Search, IsNearTheBoundOnPipeDreamsProfiles) {
  const Pipeline pipeline = chain(8);
  const std::vector<int> keep = kept_by_1f1b(pipeline, 32);
  EXPECT_THAT(keep, testing::ElementsAre(8, 7, 6, 5, 4, 3, 2, 1));
  for (const ActionCosts& costs : {kGnmt, kResNet50}) {
    const FoundSchedule found = search_schedule(pipeline, 32, costs, keep, {.seconds = 0});
    EXPECT_LE(found.gap(), 0.01);
    const Schedule built_in = one_f_one_b(pipeline, 32);
    EXPECT_LT(found.makespan, 0.97 * bubble(built_in, pipeline.graph, costs).makespan);
  }
  // In ZB-H1's memory, better than it; likewise ZB-H2's.
  for (const auto& [name, kept] : {std::pair("zb-h1", 8), std::pair("zb-h2", 15)}) {
    const FoundSchedule found =
        search_schedule(pipeline, 32, kResNet50, std::vector<int>(8, kept), {.seconds = 0});
    const Schedule built_in = make_schedule(name, pipeline, 32);
    EXPECT_LT(found.makespan, bubble(built_in, pipeline.graph, kResNet50).makespan) << name;
  }
}

TEST(Search, GoesByTheWorkersSpeeds) {
  ActionCosts costs;
  costs.speeds = {1, 4};
  const FoundSchedule found = search_schedule(chain(2), 4, costs, {4, 4}, {.seconds = 0});
  EXPECT_NEAR(bubble(found.schedule, chain_of_stages(2), costs).makespan, found.makespan, 1e-9);
}

TEST(Search, RefusesWhatItIsNotFor) {
  EXPECT_THAT(
      [] {
        search_schedule(chain_of({{0}, {1}, {0}}), 2, {}, {1, 1, 1});
      },
      testing::ThrowsMessage<Error>(HasSubstr("one stage each; 3 stages are on 2")));
  EXPECT_THAT([] { search_schedule(chain(2), 2, {}, {1}); },
              testing::ThrowsMessage<Error>(HasSubstr("caps for 1 stages, and 2 stages")));
  EXPECT_THAT(
      [] {
        search_schedule(chain(2), 2, {}, {1, 0});
      },
      testing::ThrowsMessage<Error>(HasSubstr("stage 1 may keep 0")));
}

}  // namespace
}  // namespace kerf::schedmp
