#include "schedmp/schedules/by_limits.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

class Game {
 public:
  Game(int kept, const Pipeline& pipeline, const Crews& crews, int micro_batches,
       const ActionCosts& costs)
      : kept_(kept),
        pipeline_(pipeline),
        crews_(crews),
        micro_batches_(micro_batches),
        costs_(costs),
        stages_(pipeline.groups.size()),
        free_(crews.workers.size()),
        rows(crews.workers.size()) {
    for (int crew = 0; crew < crews.count(); ++crew) moments_.emplace(0, crew);
    while (!moments_.empty()) {
      const auto [now, crew] = moments_.top();
      moments_.pop();
      if (free_[at(crew)] <= now)
        if (const auto action = choose(crew, now)) act(crew, *action, now);
    }
    for (const Done& done : stages_)
      KERF_CHECK(done.gradient.size() == at(micro_batches_), "the limits of a schedule stop it");
  }

 private:
  struct Done {                             // of a stage
    std::vector<double> forward, gradient;  // by micro-batch: when each ended
  };
  static size_t at(int index) { return static_cast<size_t>(index); }

  // When it has come from all of these stages; empty: of some nobody knows.
  std::optional<double> arrival(int stage, const std::vector<int>& others,
                                std::vector<double> Done::*ends, size_t micro_batch) const {
    double last = 0;
    for (const int other : others) {
      const std::vector<double>& known = stages_[at(other)].*ends;
      if (known.size() <= micro_batch) return std::nullopt;
      const bool elsewhere = crews_.of_stage[at(other)] != crews_.of_stage[at(stage)];
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

  // Of the crew's stages that may, that of the earliest micro-batch, of one the latest stage.
  template <class May, class Next>
  std::optional<int> first(int crew, const May& may, const Next& next) const {
    std::optional<int> found;
    for (const int stage : crews_.stages[at(crew)])
      if (may(stage) && (!found || next(stage) <= next(*found))) found = stage;
    return found;
  }

  int kept_by(int crew) const {
    size_t kept = 0;
    for (const int stage : crews_.stages[at(crew)])
      kept += stages_[at(stage)].forward.size() - stages_[at(stage)].gradient.size();
    return static_cast<int>(kept);
  }
  bool has_place(int crew, int stage) const {
    const std::vector<int>& own = crews_.stages[at(crew)];
    const auto later = own.end() - std::find(own.begin(), own.end(), stage) - 1;
    return kept_by(crew) + later < kept_;
  }

  std::optional<Action> choose(int crew, double now) const {
    const auto forwards = [&](int stage) { return stages_[at(stage)].forward.size(); };
    const auto backs = [&](int stage) { return stages_[at(stage)].gradient.size(); };
    const auto may_go_on = [&](int stage) {
      return may_forward(stage, now) && has_place(crew, stage);
    };
    const auto on = first(crew, may_go_on, forwards);
    const auto back = first(
        crew, [&](int stage) { return may_go_back(stage, now); }, backs);
    const std::vector<Action>& row = rows[at(crew)];
    const bool was_back = !row.empty() && row.back().kind == ActionKind::kBackward;
    if (on && (!back || (was_back && kept_by(crew) > 0)))
      return Action{*on, ActionKind::kForward, static_cast<int>(forwards(*on))};
    if (back) return Action{*back, ActionKind::kBackward, static_cast<int>(backs(*back))};
    return std::nullopt;
  }

  void act(int crew, const Action& action, double now) {
    Done& done = stages_[at(action.stage)];
    const double end = now + costs_.of(action);
    (action.kind == ActionKind::kForward ? done.forward : done.gradient).push_back(end);
    rows[at(crew)].push_back(action);
    free_[at(crew)] = end;
    for (int other = 0; other < crews_.count(); ++other)
      moments_.emplace(other == crew ? end : end + costs_.transfer, other);
  }

  int kept_;
  const Pipeline& pipeline_;
  const Crews& crews_;
  int micro_batches_;
  const ActionCosts& costs_;
  std::vector<Done> stages_;
  std::vector<double> free_;              // by crew: from when on
  using Moment = std::pair<double, int>;  // in which a crew looks what it may do
  std::priority_queue<Moment, std::vector<Moment>, std::greater<>> moments_;

 public:
  std::vector<std::vector<Action>> rows;
};

}  // namespace

std::vector<std::vector<Action>> rows_within(int kept, const Pipeline& pipeline, const Crews& crews,
                                             int micro_batches, const ActionCosts& costs) {
  return std::move(Game(kept, pipeline, crews, micro_batches, costs).rows);
}

}  // namespace kerf::schedmp
