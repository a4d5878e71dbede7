#include "schedmp/search/word_times.h"

#include <algorithm>
#include <limits>

#include "partitioner/at.h"

namespace kerf::schedmp {

using partitioner::at;

WordTimes::WordTimes(const SearchProblem& problem)
    : problem_(problem), stages_(problem.costs.size()) {}

double WordTimes::makespan(const std::vector<Word>& words) {
  for (Stage& stage : stages_) {
    stage.at = 0;
    stage.now = 0;
    stage.forward.clear();
    stage.gradient.clear();
  }
  // Values go up and gradients down: two sweeps move both as far as they get.
  for (bool more = true; more;) {
    more = false;
    for (int stage = 0; stage < problem_.stages(); ++stage)
      more = advance(stage, words[at(stage)]) || more;
    for (int stage = problem_.stages(); stage-- > 0;)
      more = advance(stage, words[at(stage)]) || more;
  }
  double end = 0;
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    if (stages_[stage].at < words[stage].size()) return std::numeric_limits<double>::infinity();
    end = std::max(end, stages_[stage].now);
  }
  return end;
}

bool WordTimes::arrives(const std::vector<int>& others, std::vector<double> Stage::*ends,
                        size_t micro_batch, double& now) const {
  for (const int other : others) {
    const std::vector<double>& known = stages_[at(other)].*ends;
    if (known.size() <= micro_batch) return false;
    now = std::max(now, known[micro_batch] + problem_.transfer);
  }
  return true;
}

bool WordTimes::advance(int number, const Word& word) {
  Stage& stage = stages_[at(number)];
  const StageCosts& costs = problem_.costs[at(number)];
  const size_t before = stage.at;
  for (; stage.at < word.size(); ++stage.at) {
    double now = stage.now;
    if (word[stage.at] == ActionKind::kForward) {
      if (!arrives(problem_.graph.reads[at(number)], &Stage::forward, stage.forward.size(), now))
        break;
      stage.now = stage.forward.emplace_back(now + costs.forward);
    } else if (word[stage.at] == ActionKind::kInputGradient) {
      if (!arrives(problem_.graph.gradients[at(number)], &Stage::gradient, stage.gradient.size(),
                   now))
        break;
      stage.now = stage.gradient.emplace_back(now + costs.input_gradient);
    } else {
      stage.now = now + costs.weight_gradient;
    }
  }
  return stage.at > before;
}

}  // namespace kerf::schedmp
