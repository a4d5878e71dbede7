#include "schedmp/search/problem.h"

#include <algorithm>

#include "partitioner/at.h"

namespace kerf::schedmp {

using partitioner::at;

double SearchProblem::work(int stage) const {
  const StageCosts& each = costs[at(stage)];
  return micro_batches * (each.forward + each.input_gradient + each.weight_gradient);
}

namespace {

// Of one micro-batch that meets nobody: when each stage ends its forward, and its input gradient;
// and what comes behind a stage's input gradient at least.
struct LoneMicroBatch {
  std::vector<double> forward, gradient, after;

  explicit LoneMicroBatch(const SearchProblem& problem)
      : forward(problem.costs.size()), gradient(forward), after(forward) {
    const int stages = problem.stages();
    for (int stage = 0; stage < stages; ++stage)
      forward[at(stage)] =
          last(problem, problem.graph.reads[at(stage)], forward) + problem.costs[at(stage)].forward;
    for (int stage = stages; stage-- > 0;)
      gradient[at(stage)] = std::max(forward[at(stage)],
                                     last(problem, problem.graph.gradients[at(stage)], gradient)) +
                            problem.costs[at(stage)].input_gradient;
    for (int stage = 0; stage < stages; ++stage)
      after[at(stage)] = problem.costs[at(stage)].weight_gradient;
    for (int stage = 0; stage < stages; ++stage)
      for (const int other : problem.graph.gradients[at(stage)])
        after[at(other)] = std::max(after[at(other)], problem.transfer + after[at(stage)] +
                                                          problem.costs[at(stage)].input_gradient);
  }

 private:
  static double last(const SearchProblem& problem, const std::vector<int>& others,
                     const std::vector<double>& ends) {
    double end = 0;
    for (const int other : others) end = std::max(end, ends[at(other)] + problem.transfer);
    return end;
  }
};

}  // namespace

double least_makespan(const SearchProblem& problem) {
  const LoneMicroBatch lone(problem);
  const int m = problem.micro_batches;
  double most = 0;
  for (int stage = 0; stage < problem.stages(); ++stage) {
    const auto [f, i, w, update] = problem.costs[at(stage)];
    const int keep = std::min(problem.keep[at(stage)], m);
    const double first = lone.forward[at(stage)] - f;
    const double returned = lone.gradient[at(stage)] - i;
    const double idle = std::max(first, returned - keep * f);
    most = std::max(most, idle + problem.work(stage));
    most = std::max(most, idle + m * (f + i) + (m - keep) * w + lone.after[at(stage)]);
  }
  return most;
}

bool is_legal(const Word& word, int micro_batches, int keep) {
  int forward = 0, gradient = 0, weights = 0;
  for (const ActionKind kind : word) {
    ++(kind == ActionKind::kForward         ? forward
       : kind == ActionKind::kInputGradient ? gradient
                                            : weights);
    if (gradient > forward || weights > gradient || forward - weights > keep) return false;
  }
  return forward == micro_batches && gradient == micro_batches && weights == micro_batches;
}

}  // namespace kerf::schedmp
