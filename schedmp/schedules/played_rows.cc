#include "schedmp/schedules/played_rows.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

#include "partitioner/at.h"
#include "runtime/error.h"

namespace kerf::schedmp {

using partitioner::at;

namespace {

class Game {
 public:
  Game(int kept, const Pipeline& pipeline, const DistinctGroups& groups, int micro_batches,
       const ActionCosts& costs)
      : kept_(kept),
        pipeline_(pipeline),
        groups_(groups),
        micro_batches_(micro_batches),
        costs_(costs),
        stages_(pipeline.groups.size()),
        free_(groups.workers.size()),
        kept_by_(groups.workers.size()),
        later_(pipeline.groups.size()),
        wakes_{std::vector<std::vector<int>>(pipeline.groups.size()),
               std::vector<std::vector<int>>(pipeline.groups.size())},
        rows(groups.workers.size()) {
    find_neighbours();
    for (int group = 0; group < groups.count(); ++group) moments_.emplace(0, group);
    while (!moments_.empty()) {
      const auto [now, group] = moments_.top();
      moments_.pop();
      if (free_[at(group)] <= now)
        if (const auto action = choose(group, now)) act(group, *action, now);
    }
  }

  bool is_over() const {
    return std::ranges::all_of(
        stages_, [&](const Done& done) { return done.gradient.size() == at(micro_batches_); });
  }

 private:
  struct Done {                             // of a stage
    std::vector<double> forward, gradient;  // by micro-batch: when each ended
  };

  // When it has come from all of these stages; empty: of some nobody knows.
  std::optional<double> arrival(int stage, const std::vector<int>& others,
                                std::vector<double> Done::*ends, size_t micro_batch) const {
    double last = 0;
    for (const int other : others) {
      const std::vector<double>& known = stages_[at(other)].*ends;
      if (known.size() <= micro_batch) return std::nullopt;
      const bool elsewhere = groups_.of_stage[at(other)] != groups_.of_stage[at(stage)];
      last = std::max(last, known[micro_batch] + (elsewhere ? costs_.transfer : 0));
    }
    return last;
  }
  bool may_forward(int stage, double now) const {
    const size_t next = stages_[at(stage)].forward.size();
    const auto ready = arrival(stage, pipeline_.graph.reads[at(stage)], &Done::forward, next);
    return next < at(micro_batches_) && ready && *ready <= now;
  }
  bool may_go_back(int stage, double now) const {
    const Done& done = stages_[at(stage)];
    const size_t next = done.gradient.size();
    const auto ready = arrival(stage, pipeline_.graph.gradients[at(stage)], &Done::gradient, next);
    return next < done.forward.size() && ready && *ready <= now;
  }

  // Of the group's stages that may, that of the earliest micro-batch, of one the latest stage.
  template <class May, class Next>
  std::optional<int> first(int group, const May& may, const Next& next) const {
    std::optional<int> found;
    for (const int stage : groups_.stages[at(group)])
      if (may(stage) && (!found || next(stage) <= next(*found))) found = stage;
    return found;
  }

  // Whom a stage's forward may let go on, and whom its gradient; and its group's later chunks.
  void find_neighbours() {
    for (int stage = 0; stage < pipeline_.graph.stages(); ++stage) {
      for (const int other : pipeline_.graph.reads[at(stage)])
        wakes_[0][at(other)].push_back(groups_.of_stage[at(stage)]);
      for (const int other : pipeline_.graph.gradients[at(stage)])
        wakes_[1][at(other)].push_back(groups_.of_stage[at(stage)]);
    }
    for (const std::vector<int>& stages : groups_.stages)
      for (size_t chunk = 0; chunk < stages.size(); ++chunk)
        later_[at(stages[chunk])] = static_cast<int>(stages.size() - 1 - chunk);
  }
  bool has_room(int group, int stage) const {
    return kept_by_[at(group)] + later_[at(stage)] < kept_;
  }

  std::optional<Action> choose(int group, double now) const {
    const auto forwards = [&](int stage) { return stages_[at(stage)].forward.size(); };
    const auto backs = [&](int stage) { return stages_[at(stage)].gradient.size(); };
    const auto may_go_on = [&](int stage) {
      return has_room(group, stage) && may_forward(stage, now);
    };
    const auto on = first(group, may_go_on, forwards);
    const auto back = first(
        group, [&](int stage) { return may_go_back(stage, now); }, backs);
    const std::vector<Action>& row = rows[at(group)];
    const bool was_back = !row.empty() && row.back().kind == ActionKind::kBackward;
    if (on && (!back || (was_back && kept_by_[at(group)] > 0)))
      return Action{*on, ActionKind::kForward, static_cast<int>(forwards(*on))};
    if (back) return Action{*back, ActionKind::kBackward, static_cast<int>(backs(*back))};
    return std::nullopt;
  }

  void act(int group, const Action& action, double now) {
    Done& done = stages_[at(action.stage)];
    const bool forward = action.kind == ActionKind::kForward;
    const double end = now + costs_.of(action);
    (forward ? done.forward : done.gradient).push_back(end);
    kept_by_[at(group)] += forward ? 1 : -1;
    rows[at(group)].push_back(action);
    free_[at(group)] = end;
    moments_.emplace(end, group);
    for (const int other : wakes_[forward ? 0 : 1][at(action.stage)])
      if (other != group) moments_.emplace(end + costs_.transfer, other);
  }

  int kept_;
  const Pipeline& pipeline_;
  const DistinctGroups& groups_;
  int micro_batches_;
  const ActionCosts& costs_;
  std::vector<Done> stages_;
  std::vector<double> free_;                            // by group: from when on
  std::vector<int> kept_by_;                            // by group: micro-batches of its chunks
  std::vector<int> later_;                              // by stage: later chunks of its group
  std::array<std::vector<std::vector<int>>, 2> wakes_;  // by forward or back, by stage: groups
  using Moment = std::pair<double, int>;                // in which a group looks what it may do
  std::priority_queue<Moment, std::vector<Moment>, std::greater<>> moments_;

 public:
  std::vector<std::vector<Action>> rows;
};

}  // namespace

std::vector<std::vector<Action>> played_rows(int kept, const Pipeline& pipeline,
                                             const DistinctGroups& groups, int micro_batches,
                                             const ActionCosts& costs) {
  const int all = micro_batches * pipeline.graph.stages();
  for (int more = 0;; more = 2 * more + 1) {
    Game game(kept + more, pipeline, groups, micro_batches, costs);
    if (game.is_over()) return std::move(game.rows);
    KERF_CHECK(more < all, "{} micro-batches at once stop a schedule", kept + more);
  }
}

}  // namespace kerf::schedmp
