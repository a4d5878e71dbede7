#include "schedmp/search/schedule_search.h"

#include <algorithm>
#include <chrono>

#include "partitioner/at.h"
#include "runtime/error.h"
#include "schedmp/kept.h"
#include "schedmp/schedules/distinct_groups.h"
#include "schedmp/search/exact_words.h"
#include "schedmp/search/greedy_words.h"
#include "schedmp/search/partial_words.h"
#include "schedmp/search/refined_words.h"
#include "schedmp/search/word_times.h"

namespace kerf::schedmp {

using partitioner::at;

namespace {

constexpr double kSecondsOfRules = 5;  // that list scheduling may take, however short the effort
// What an exact search is begun for.
constexpr int kMostExactStages = 3;
constexpr int kMostExactMicroBatches = 4;

struct Candidate {
  std::vector<Word> words;
  double makespan = PartialWords::kNever;
  std::string origin;
};

SearchProblem problem_of(const Pipeline& pipeline, int micro_batches, const ActionCosts& costs,
                         const std::vector<int>& keep) {
  SearchProblem problem{pipeline.graph, micro_batches, {}, costs.transfer, keep};
  for (int stage = 0; stage < pipeline.graph.stages(); ++stage) {
    StageCosts each = costs.of_stage(stage);
    const auto worker = at(pipeline.groups[at(stage)].front());
    const double speed = worker < costs.speeds.size() ? costs.speeds[worker] : 1;
    problem.costs.push_back(
        {each.forward / speed, each.input_gradient / speed, each.weight_gradient / speed});
  }
  return problem;
}

// A row of one stage, B as I and W.
Word word_of(const std::vector<Action>& row) {
  Word word;
  for (const Action& action : row) {
    if (is_of_updates(action.kind)) continue;
    if (action.kind == ActionKind::kBackward) {
      word.push_back(ActionKind::kInputGradient);
      word.push_back(ActionKind::kWeightGradient);
    } else {
      word.push_back(action.kind);
    }
  }
  return word;
}

std::vector<Action> row_of_word(const Word& word, int stage) {
  std::vector<Action> row;
  int forward = 0, gradient = 0, weights = 0;
  for (const ActionKind kind : word) {
    int& count = kind == ActionKind::kForward         ? forward
                 : kind == ActionKind::kInputGradient ? gradient
                                                      : weights;
    row.push_back({stage, kind, count++});
  }
  row.push_back({stage, ActionKind::kUpdate});
  return row;
}

class Search {
 public:
  Search(const Pipeline& pipeline, const SearchProblem& problem)
      : pipeline_(pipeline), problem_(problem), times_(problem) {}

  Candidate best;

  void offer(std::vector<Word> words, const std::string& origin) {
    const double makespan = times_.makespan(words);
    if (makespan < best.makespan * (1 - kRounding)) best = {std::move(words), makespan, origin};
  }

  // Those of one stage on each worker that the cap allows.
  void offer_built_in() {
    // Some are made for twice as many micro-batches as there are stages.
    if (int64_t{6} * problem_.stages() * problem_.stages() > kMostActions) return;
    for (const std::string& name : schedule_names()) {
      if (!trains(name) || replicas_of(name) > 1 || is_endless(name) || !allows(shape_of(name), 1))
        continue;
      const Schedule schedule = make_schedule(name, pipeline_, problem_.micro_batches);
      std::vector<Word> words;
      bool legal = true;
      for (int stage = 0; stage < problem_.stages(); ++stage) {
        words.push_back(word_of(schedule.rows[at(pipeline_.groups[at(stage)].front())]));
        legal = legal && is_legal(words.back(), problem_.micro_batches, problem_.keep[at(stage)]);
      }
      if (legal) offer(std::move(words), name);
    }
  }

  // By all rules, or of a large problem by those that there is time for.
  void offer_greedy(const SearchEffort& effort) {
    const auto begin = std::chrono::steady_clock::now();
    for (const double patience : {0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5})
      for (const double wait : {-1.0, -0.5, 0.0, 0.25, 0.5, 1.0})
        for (const bool forwards_first : {false, true}) {
          const std::chrono::duration<double> over = std::chrono::steady_clock::now() - begin;
          if (over.count() > std::max(effort.seconds, kSecondsOfRules) && !best.words.empty())
            return;
          effort.sign(0);
          std::vector<Word> words = greedy_words(problem_, {patience, wait, forwards_first});
          if (!words.empty()) offer(std::move(words), "list scheduling");
        }
  }

 private:
  const Pipeline& pipeline_;
  const SearchProblem& problem_;
  WordTimes times_;
};

void check(const Pipeline& pipeline, const std::vector<int>& keep) {
  const DistinctGroups groups = distinct_groups("found", pipeline);
  if (groups.count() != pipeline.graph.stages())
    throw Error(ErrorCode::kUsage,
                kerf::format("a search is for workers of one stage each; {} stages are on {}",
                             pipeline.graph.stages(), groups.count()));
  if (std::ssize(keep) != pipeline.graph.stages())
    throw Error(ErrorCode::kUsage, kerf::format("there are caps for {} stages, and {} stages",
                                                keep.size(), pipeline.graph.stages()));
  for (size_t stage = 0; stage < keep.size(); ++stage)
    if (keep[stage] < 1)
      throw Error(
          ErrorCode::kUsage,
          kerf::format("stage {} may keep {} micro-batches: it needs one", stage, keep[stage]));
}

Schedule schedule_of_words(const Pipeline& pipeline, int micro_batches,
                           const std::vector<Word>& words) {
  Schedule schedule{"found", micro_batches, pipeline.groups, {}};
  schedule.rows.resize(at(count_workers(pipeline.groups)));
  for (size_t stage = 0; stage < words.size(); ++stage)
    for (const int worker : pipeline.groups[stage])
      schedule.rows[at(worker)] = row_of_word(words[stage], static_cast<int>(stage));
  return schedule;
}

}  // namespace

std::vector<int> kept_by_1f1b(const Pipeline& pipeline, int micro_batches) {
  const std::vector<int> peaks = peak_activations(one_f_one_b(pipeline, micro_batches));
  std::vector<int> keep;
  for (const std::vector<int>& group : pipeline.groups) keep.push_back(peaks[at(group.front())]);
  return keep;
}

FoundSchedule search_schedule(const Pipeline& pipeline, int micro_batches, const ActionCosts& costs,
                              const std::vector<int>& keep, const SearchEffort& effort) {
  check(pipeline, keep);
  const SearchProblem problem = problem_of(pipeline, micro_batches, costs, keep);
  const double least = least_makespan(problem);
  Search search(pipeline, problem);
  search.offer_built_in();
  search.offer_greedy(effort);
  KERF_CHECK(!search.best.words.empty(), "no order of {} stages comes to its end",
             problem.stages());
  const auto is_best = [&] { return search.best.makespan <= least * (1 + kRounding); };
  bool proved = false;
  if (!is_best() && problem.stages() <= kMostExactStages &&
      micro_batches <= kMostExactMicroBatches) {
    ExactWords exact = exact_words(problem, search.best.makespan, effort.most_choices);
    proved = exact.proved;
    if (!exact.words.empty()) search.offer(std::move(exact.words), "branch and bound");
  }
  if (!is_best() && !proved)
    search.offer(refined_words(problem, search.best.words, least * (1 + kRounding), effort.seconds,
                               effort.seed, effort.sign),
                 search.best.origin);
  const Candidate& best = search.best;
  proved = proved || is_best();
  return {schedule_of_words(pipeline, micro_batches, best.words), best.makespan,
          proved ? best.makespan : least, proved, best.origin};
}

}  // namespace kerf::schedmp
