// A schedule of a chain of stages as one row, for one worker that runs the same text: its rows
// merged, each action as soon as what it reads is there.
#pragma once

#include <set>
#include <tuple>
#include <vector>

#include "runtime/error.h"
#include "schedmp/schedule.h"

namespace kerf::schedmp {

class OneRow {
 public:
  explicit OneRow(int stages) : stages_(stages) {}

  // Workers take turns, those of a stage's first worker each.
  std::vector<Action> merged(const std::vector<std::vector<Action>>& rows,
                             const std::vector<std::vector<int>>& groups) {
    std::vector<Action> row;
    std::vector<size_t> at(rows.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (const std::vector<int>& group : groups) {
        const auto worker = static_cast<size_t>(group.front());
        if (at[worker] == rows[worker].size() || !is_ready(rows[worker][at[worker]])) continue;
        row.push_back(rows[worker][at[worker]++]);
        done_.emplace(kind_of(row.back()), row.back().stage, row.back().micro_batch);
        moved = true;
      }
    }
    for (const std::vector<int>& group : groups) {
      const auto worker = static_cast<size_t>(group.front());
      KERF_CHECK(at[worker] == rows[worker].size(), "worker {} waits for ever", worker);
    }
    return row;
  }

 private:
  static ActionKind kind_of(const Action& action) {
    return action.kind == ActionKind::kBackward ? ActionKind::kInputGradient : action.kind;
  }
  bool is_ready(const Action& action) const {
    if (kind_of(action) == ActionKind::kForward)
      return action.stage == 0 ||
             done_.contains({ActionKind::kForward, action.stage - 1, action.micro_batch});
    if (kind_of(action) == ActionKind::kInputGradient)
      return action.stage + 1 == stages_ ||
             done_.contains({ActionKind::kInputGradient, action.stage + 1, action.micro_batch});
    return true;
  }

  int stages_;
  std::set<std::tuple<ActionKind, int, int>> done_;  // kind, stage, micro-batch
};

// Each worker has one stage, and of a group the first speaks.
inline Schedule on_one_worker(const Schedule& schedule) {
  Schedule alone = schedule;
  alone.groups.assign(schedule.groups.size(), {0});
  OneRow filled(schedule.stages());
  if (schedule.endless()) alone.prologue = {filled.merged(schedule.prologue, schedule.groups)};
  OneRow last = filled;
  alone.rows = {filled.merged(schedule.rows, schedule.groups)};
  if (schedule.endless()) alone.epilogue = {last.merged(schedule.epilogue, schedule.groups)};
  return alone;
}

}  // namespace kerf::schedmp
