// Every forward is forgotten, and made again right before its gradients (GPipe, Huang et al. 2019):
//
//   worker 0  0F0 0F1                 0RECOMPUTE0 0B0 0RECOMPUTE1 0B1
//   worker 1      1F0 1RECOMPUTE0 1B0 1F1 1B1
//
// But for those that nothing comes between: their gradients find all that they read.
#include "schedmp/schedules.h"

namespace kerf::schedmp {

namespace {

bool begins_gradients(const Action& action) {
  return action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient;
}

std::vector<Action> recomputed(const std::vector<Action>& row) {
  std::vector<Action> longer;
  for (const Action& action : row) {
    const Action forward{action.stage, ActionKind::kForward, action.micro_batch};
    if (begins_gradients(action) && (longer.empty() || longer.back() != forward))
      longer.push_back({action.stage, ActionKind::kRecompute, action.micro_batch});
    longer.push_back(action);
  }
  return longer;
}

}  // namespace

Schedule recomputed(const Schedule& schedule) {
  Schedule longer = schedule;
  longer.name += "-recomputed";
  for (auto* section : {&longer.prologue, &longer.rows, &longer.epilogue})
    for (std::vector<Action>& row : *section) row = recomputed(row);
  return longer;
}

}  // namespace kerf::schedmp
