#include "schedmp/schedules/fitted_rows.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <utility>

#include "partitioner/at.h"
#include "schedmp/kept.h"
#include "schedmp/schedules/distinct_groups.h"
#include "schedmp/staircase.h"

namespace kerf::schedmp {

using partitioner::at;

namespace {

// As the rows are, with W before what is next whenever that has yet to wait, or where the wait is
// as long as W takes, as far as it is known; or whatever may begin, of the earliest micro-batch,
// the gradients of inputs first or forwards first, and W where there is neither.
enum class Rule : uint8_t { kFilled, kFilledWhereItFits, kGradientsFirst, kForwardsFirst };

bool keeps_rows(Rule rule) { return rule == Rule::kFilled || rule == Rule::kFilledWhereItFits; }

class FittedPlay {
 public:
  FittedPlay(const Schedule& schedule, const Pipeline& pipeline, const DistinctGroups& groups,
             const ActionCosts& costs, Rule rule)
      : pipeline_(pipeline),
        groups_(groups),
        costs_(costs),
        rule_(rule),
        micro_batches_(at(schedule.micro_batches)),
        ends_(at(schedule.stages())),
        readers_(ends_.size()) {
    const std::vector<int> peaks = peak_activations(schedule);
    for (const std::vector<int>& workers : groups.workers) {
      Row& row = rows_.emplace_back();
      row.most = peaks[at(workers.front())];
      for (const Action& action : schedule.rows[at(workers.front())])
        if (!is_of_updates(action.kind) && action.kind != ActionKind::kWeightGradient)
          row.fixed.push_back(action);
    }
    for (const auto* edges : {&pipeline_.graph.reads, &pipeline_.graph.gradients})
      for (size_t stage = 0; stage < edges->size(); ++stage)
        for (const int other : (*edges)[stage])
          readers_[at(other)].push_back(groups_.of_stage[stage]);
    play();
  }

  // Empty where one did not come to its end: what it may keep is too little for that rule.
  std::optional<std::vector<std::vector<Action>>> rows() const {
    std::vector<std::vector<Action>> all;
    for (const Row& row : rows_) {
      if (row.taken < row.fixed.size() || !row.pending.empty()) return std::nullopt;
      all.push_back(row.made);
    }
    return all;
  }

 private:
  struct Row {
    std::vector<Action> fixed;    // all but gradients of weights
    size_t taken = 0;             // of those, or of as many
    std::vector<Action> pending;  // gradients of weights
    std::map<int, int> weights;   // by stage: of which micro-batch they are next
    int kept = 0, most = 0;       // micro-batches
    double free = 0;              // from when on
    std::vector<Action> made;
  };
  struct Ends {                               // of a stage
    std::map<int, double> forward, gradient;  // by micro-batch
  };

  void play() {
    for (int group = 0; group < groups_.count(); ++group) moments_.emplace(0, group);
    while (!moments_.empty()) {
      const auto [now, group] = moments_.top();
      moments_.pop();
      if (rows_[at(group)].free > now) continue;
      if (const auto action = keeps_rows(rule_) ? next_of_row(group, now) : next_of_any(group, now))
        act(group, *action, now);
    }
  }

  double seconds(int group, const Action& action) const {
    return costs_.of(action, groups_.workers[at(group)].front(), 0);
  }

  // When all that it waits for is there; empty: nobody knows yet.
  std::optional<double> ready(const Action& action) const {
    const bool forward = action.kind == ActionKind::kForward;
    const auto& edges = forward ? pipeline_.graph.reads : pipeline_.graph.gradients;
    double last = 0;
    for (const int other : edges[at(action.stage)]) {
      const auto& ends = forward ? ends_[at(other)].forward : ends_[at(other)].gradient;
      const auto end = ends.find(action.micro_batch);
      if (end == ends.end()) return std::nullopt;
      const bool elsewhere = groups_.of_stage[at(other)] != groups_.of_stage[at(action.stage)];
      last = std::max(last, end->second + (elsewhere ? costs_.transfer : 0));
    }
    return last;
  }
  bool may_begin(const Action& action, double now) const {
    const std::optional<double> when = ready(action);
    return when && *when <= now;
  }

  // The first that waits of those whose turn it is, of the stage alone or (-1) of any.
  static std::optional<Action> weights_of(Row& row, int stage = -1) {
    for (const Action& each : row.pending)
      if ((stage < 0 || each.stage == stage) && row.weights[each.stage] == each.micro_batch)
        return each;
    return std::nullopt;
  }

  std::optional<Action> next_of_row(int group, double now) {
    Row& row = rows_[at(group)];
    const auto weights = weights_of(row);
    if (row.taken == row.fixed.size()) return weights;
    const Action& next = row.fixed[row.taken];
    if (next.kind == ActionKind::kForward && row.kept >= row.most) return weights;
    if (next.kind == ActionKind::kBackward)
      if (const auto before = weights_of(row, next.stage)) return before;
    if (may_begin(next, now)) return next;
    const std::optional<double> when = ready(next);
    const bool fits = !weights || !when || *when - now >= seconds(group, *weights);
    return fits || rule_ == Rule::kFilled ? weights : std::nullopt;
  }

  std::optional<Action> next_of_any(int group, double now) {
    Row& row = rows_[at(group)];
    const std::vector<int>& stages = groups_.stages[at(group)];
    std::optional<Action> on, back;  // of one micro-batch the latest stage
    const auto take = [](const Action& action, std::optional<Action>& found) {
      if (!found || action.micro_batch <= found->micro_batch) found = action;
    };
    for (size_t chunk = 0; chunk < stages.size(); ++chunk) {
      const Ends& ends = ends_[at(stages[chunk])];
      const Action forward{stages[chunk], ActionKind::kForward,
                           static_cast<int>(ends.forward.size())};
      const Action gradient{stages[chunk], ActionKind::kInputGradient,
                            static_cast<int>(ends.gradient.size())};
      // No chunk takes the last place of a later one.
      const auto later = static_cast<int>(stages.size() - 1 - chunk);
      if (ends.forward.size() < micro_batches_ && row.kept + later < row.most &&
          may_begin(forward, now))
        take(forward, on);
      if (ends.gradient.size() < ends.forward.size() && may_begin(gradient, now))
        take(gradient, back);
    }
    const bool gradients_first = rule_ == Rule::kGradientsFirst;
    if (on && back) return gradients_first ? back : on;
    if (on) return on;
    return back ? back : weights_of(row);
  }

  void act(int group, const Action& action, double now) {
    Row& row = rows_[at(group)];
    const double end = row.free = now + seconds(group, action);
    row.made.push_back(action);
    moments_.emplace(end, group);
    if (action.kind == ActionKind::kWeightGradient) {
      std::erase(row.pending, action);
    } else {
      ++row.taken;
      Ends& ends = ends_[at(action.stage)];
      (action.kind == ActionKind::kForward ? ends.forward : ends.gradient)[action.micro_batch] =
          end;
      for (const int other : readers_[at(action.stage)])
        if (other != group) moments_.emplace(end + costs_.transfer, other);
    }
    if (action.kind == ActionKind::kForward) ++row.kept;
    if (action.kind == ActionKind::kInputGradient)
      row.pending.push_back({action.stage, ActionKind::kWeightGradient, action.micro_batch});
    if (action.kind == ActionKind::kWeightGradient || action.kind == ActionKind::kBackward) {
      row.weights[action.stage] = action.micro_batch + 1;
      --row.kept;
    }
  }

  const Pipeline& pipeline_;
  const DistinctGroups& groups_;
  const ActionCosts& costs_;
  const Rule rule_;
  const size_t micro_batches_;
  std::vector<Row> rows_;                  // by group
  std::vector<Ends> ends_;                 // by stage
  std::vector<std::vector<int>> readers_;  // by stage: groups that wait for its actions
  using Moment = std::pair<double, int>;   // in which a group looks what it may do
  std::priority_queue<Moment, std::vector<Moment>, std::greater<>> moments_;
};

bool has_backwards(const Schedule& schedule) {
  return std::ranges::any_of(schedule.rows, [](const std::vector<Action>& row) {
    return std::ranges::any_of(
        row, [](const Action& each) { return each.kind == ActionKind::kBackward; });
  });
}

}  // namespace

Schedule fitted_rows(const Schedule& schedule, const Pipeline& pipeline, const ActionCosts& costs) {
  constexpr double kGained = 1 - 1e-9;  // less is the noise of sums
  const DistinctGroups groups = distinct_groups(schedule.name, pipeline);
  const ActionCosts steady = costs.without_jitter();
  const auto takes = [&](const Schedule& each) {
    return bubble(each, pipeline.graph, steady).makespan;
  };
  const bool apart = !has_backwards(schedule);
  Schedule best = schedule;
  double least = takes(schedule);
  for (const Rule rule :
       {Rule::kFilled, Rule::kFilledWhereItFits, Rule::kGradientsFirst, Rule::kForwardsFirst}) {
    if (!apart && !keeps_rows(rule)) continue;
    const auto rows = FittedPlay(schedule, pipeline, groups, steady, rule).rows();
    if (!rows) continue;
    Schedule fitted = with_rows(schedule.name, pipeline, groups, schedule.micro_batches, *rows);
    const double seconds = takes(fitted);
    if (seconds >= least * kGained) continue;
    best = std::move(fitted);
    least = seconds;
  }
  return best;
}

}  // namespace kerf::schedmp
