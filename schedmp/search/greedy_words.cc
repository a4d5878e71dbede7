#include "schedmp/search/greedy_words.h"

#include <algorithm>

#include "schedmp/search/partial_words.h"

namespace kerf::schedmp {

namespace {

ActionKind next_of(const PartialWords& words, const GreedyRule& rule, int stage) {
  const double forward = words.start(stage, ActionKind::kForward);
  const double gradient = words.start(stage, ActionKind::kInputGradient);
  const double weights = words.start(stage, ActionKind::kWeightGradient);
  const double patience = rule.patience * words.cost(stage, ActionKind::kWeightGradient);
  if (weights < PartialWords::kNever && std::min(forward, gradient) > weights + patience)
    return ActionKind::kWeightGradient;
  if (forward == PartialWords::kNever) return ActionKind::kInputGradient;
  if (gradient == PartialWords::kNever) return ActionKind::kForward;
  if (rule.forwards_first) {
    const double wait = rule.wait * words.cost(stage, ActionKind::kInputGradient);
    return forward <= gradient + wait ? ActionKind::kForward : ActionKind::kInputGradient;
  }
  const double wait = rule.wait * words.cost(stage, ActionKind::kForward);
  return gradient <= forward + wait ? ActionKind::kInputGradient : ActionKind::kForward;
}

}  // namespace

std::vector<Word> greedy_words(const SearchProblem& problem, const GreedyRule& rule) {
  PartialWords words(problem);
  while (!words.complete()) {
    int first = -1;
    ActionKind kind{};
    double start = PartialWords::kNever;
    for (int stage = 0; stage < problem.stages(); ++stage) {
      const ActionKind next = next_of(words, rule, stage);
      if (words.start(stage, next) >= start) continue;
      first = stage;
      kind = next;
      start = words.start(stage, next);
    }
    if (first < 0) return {};
    words.take(first, kind);
  }
  return words.words();
}

}  // namespace kerf::schedmp
