#include "schedmp/search/partial_words.h"

#include <algorithm>

#include "partitioner/at.h"

namespace kerf::schedmp {

using partitioner::at;

PartialWords::PartialWords(const SearchProblem& problem)
    : problem_(problem),
      stages_(problem.costs.size()),
      words_(problem.costs.size()),
      actions_left_(int64_t{3} * problem.stages() * problem.micro_batches) {}

double PartialWords::arrival(const std::vector<int>& others, std::vector<double> Stage::*ends,
                             size_t micro_batch) const {
  double last = 0;
  for (const int other : others) {
    const std::vector<double>& known = at_(other).*ends;
    if (known.size() <= micro_batch) return kNever;
    last = std::max(last, known[micro_batch] + problem_.transfer);
  }
  return last;
}

double PartialWords::start(int number, ActionKind kind) const {
  const Stage& stage = at_(number);
  const size_t forward = stage.forward.size(), gradient = stage.gradient.size();
  switch (kind) {
    case ActionKind::kForward: {
      const bool may = forward < at(problem_.micro_batches) &&
                       static_cast<int>(forward) - stage.weights < problem_.keep[at(number)];
      if (!may) return kNever;
      return std::max(stage.now,
                      arrival(problem_.graph.reads[at(number)], &Stage::forward, forward));
    }
    case ActionKind::kInputGradient:
      if (gradient == forward) return kNever;
      return std::max(stage.now,
                      arrival(problem_.graph.gradients[at(number)], &Stage::gradient, gradient));
    default:
      return stage.weights < static_cast<int>(gradient) ? stage.now : kNever;
  }
}

double PartialWords::cost(int stage, ActionKind kind) const {
  const auto& [f, i, w, update] = problem_.costs[at(stage)];
  return kind == ActionKind::kForward ? f : kind == ActionKind::kInputGradient ? i : w;
}

double PartialWords::left(int number) const {
  const Stage& stage = at_(number);
  const auto& [f, i, w, update] = problem_.costs[at(number)];
  const double m = problem_.micro_batches;
  return (m - static_cast<double>(stage.forward.size())) * f +
         (m - static_cast<double>(stage.gradient.size())) * i + (m - stage.weights) * w;
}

void PartialWords::take(int number, ActionKind kind) {
  Stage& stage = stages_[at(number)];
  taken_.push_back({number, stage.now});
  stage.now = start(number, kind) + cost(number, kind);
  if (kind == ActionKind::kForward) stage.forward.push_back(stage.now);
  if (kind == ActionKind::kInputGradient) stage.gradient.push_back(stage.now);
  if (kind == ActionKind::kWeightGradient) ++stage.weights;
  words_[at(number)].push_back(kind);
  --actions_left_;
}

void PartialWords::take_back() {
  const Taken last = taken_.back();
  taken_.pop_back();
  Stage& stage = stages_[at(last.stage)];
  const ActionKind kind = words_[at(last.stage)].back();
  words_[at(last.stage)].pop_back();
  if (kind == ActionKind::kForward) stage.forward.pop_back();
  if (kind == ActionKind::kInputGradient) stage.gradient.pop_back();
  if (kind == ActionKind::kWeightGradient) --stage.weights;
  stage.now = last.before;
  ++actions_left_;
}

std::vector<int> PartialWords::counts() const {
  std::vector<int> counts;
  for (const Stage& stage : stages_)
    for (const size_t each : {stage.forward.size(), stage.gradient.size(), at(stage.weights)})
      counts.push_back(static_cast<int>(each));
  return counts;
}

std::vector<double> PartialWords::times() const {
  std::vector<double> times;
  for (int number = 0; number < problem_.stages(); ++number) {
    times.push_back(at_(number).now);
    const auto add = [&](const std::vector<int>& others, std::vector<double> Stage::*ends,
                         size_t from) {
      for (const int other : others)
        for (size_t mb = from; mb < (at_(other).*ends).size(); ++mb)
          times.push_back((at_(other).*ends)[mb]);
    };
    add(problem_.graph.reads[at(number)], &Stage::forward, at_(number).forward.size());
    add(problem_.graph.gradients[at(number)], &Stage::gradient, at_(number).gradient.size());
  }
  return times;
}

}  // namespace kerf::schedmp
