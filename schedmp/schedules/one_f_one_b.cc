// stage 0  F0 F1 F2       B0 F3 B1    B2    B3 U
// stage 1     F0 F1    B0 F2 B1 F3 B2    B3 U
// stage 2        F0 B0 F1 B1 F2 B2 F3 B3 U
//
// Stage s of p warms up with p - s - 1 forwards, so it never holds more than p - s micro-batches. A
// worker of several stages runs their actions in the order in which workers of one stage each would
// come to them, one action a moment: an order in which everything can run.
#include <algorithm>

#include "schedmp/schedules.h"

namespace kerf::schedmp {

namespace {

std::vector<Action> row_of(int stage, int stages, int micro_batches) {
  std::vector<Action> row;
  const int warm_up = std::min(micro_batches, stages - stage - 1);
  for (int mb = 0; mb < warm_up; ++mb) row.push_back({stage, ActionKind::kForward, mb});
  for (int mb = 0; mb < micro_batches; ++mb) {
    if (mb + warm_up < micro_batches) row.push_back({stage, ActionKind::kForward, mb + warm_up});
    row.push_back({stage, ActionKind::kBackward, mb});
  }
  row.push_back({stage, ActionKind::kUpdate});
  return row;
}

// What the stages do in each moment, the last stage first.
class Moments {
 public:
  Moments(int stages, int micro_batches)
      : at_(static_cast<size_t>(stages)), forward_(at_), backward_(at_) {
    for (int stage = 0; stage < stages; ++stage)
      rows_.push_back(row_of(stage, stages, micro_batches));
  }

  // Empty at the end.
  std::vector<Action> next() {
    std::vector<Action> moment;
    for (size_t stage = rows_.size(); stage-- > 0;)
      if (at_[stage] < rows_[stage].size() && may(stage, rows_[stage][at_[stage]]))
        moment.push_back(rows_[stage][at_[stage]++]);
    for (const Action& action : moment) {
      const auto stage = static_cast<size_t>(action.stage);
      if (action.kind == ActionKind::kForward) ++forward_[stage];
      if (action.kind == ActionKind::kBackward) ++backward_[stage];
    }
    return moment;
  }

 private:
  bool may(size_t stage, const Action& action) const {
    const auto before = static_cast<size_t>(std::max(action.micro_batch, 0));
    if (action.kind == ActionKind::kForward) return stage == 0 || forward_[stage - 1] > before;
    return action.kind == ActionKind::kUpdate || stage + 1 == rows_.size() ||
           backward_[stage + 1] > before;
  }

  std::vector<std::vector<Action>> rows_;  // by stage
  // By stage: how many actions were done so far, and of them forwards and backwards.
  std::vector<size_t> at_, forward_, backward_;
};

}  // namespace

Schedule one_f_one_b(const std::vector<std::vector<int>>& groups, int micro_batches) {
  Schedule schedule{"1f1b", micro_batches, groups, {}};
  schedule.rows.resize(static_cast<size_t>(count_workers(groups)));
  Moments moments(schedule.stages(), micro_batches);
  for (auto moment = moments.next(); !moment.empty(); moment = moments.next())
    for (const Action& action : moment)
      for (const int worker : groups[static_cast<size_t>(action.stage)])
        schedule.rows[static_cast<size_t>(worker)].push_back(action);
  return schedule;
}

}  // namespace kerf::schedmp
