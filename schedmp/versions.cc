#include "schedmp/versions.h"

#include <algorithm>
#include <map>

#include "schedmp/verify.h"

namespace kerf::schedmp {

namespace {

// What a worker has of one stage.
struct Weights {
  int updates = 0;             // so far: the number of the newest version
  std::map<int, int> forward;  // micro-batch -> version that it read
  std::vector<int> unapplied;  // versions that gradients were made of, since the last update
  StageVersions seen;

  int version(const Action& action) const { return std::max(0, updates + action.version); }
  void reads(int version) { seen.kept = std::max(seen.kept, updates - version + 1); }

  void take(const Action& action) {
    const bool unsaid = action.version == Action::kUnsaid;
    switch (action.kind) {
      case ActionKind::kForward:
        forward[action.micro_batch] = unsaid ? updates : version(action);
        return reads(forward[action.micro_batch]);
      case ActionKind::kInputGradient:
      case ActionKind::kBackward:
      case ActionKind::kRecompute:
        reads(unsaid ? forward[action.micro_batch] : version(action));
        if (action.kind == ActionKind::kBackward) apply_later(action.micro_batch);
        return;
      case ActionKind::kWeightGradient:
        return apply_later(action.micro_batch);
      case ActionKind::kUpdate:
        for (const int version : unapplied)
          seen.staleness = std::max(seen.staleness, updates - version);
        unapplied.clear();
        ++updates;
        return;
      default:
        return;
    }
  }
  void apply_later(int micro_batch) {
    unapplied.push_back(forward[micro_batch]);
    forward.erase(micro_batch);
  }
};

}  // namespace

std::vector<StageVersions> versions_of(const Schedule& schedule) {
  if (schedule.endless()) return versions_of(as_it_is_proved(schedule));
  std::vector<StageVersions> all(static_cast<size_t>(schedule.stages()));
  for (const std::vector<Action>& row : schedule.rows) {
    std::map<int, Weights> stages;
    for (const Action& action : row) stages[action.stage].take(action);
    for (const auto& [stage, weights] : stages) {
      StageVersions& most = all[static_cast<size_t>(stage)];
      most.kept = std::max(most.kept, weights.seen.kept);
      most.staleness = std::max(most.staleness, weights.seen.staleness);
    }
  }
  return all;
}

}  // namespace kerf::schedmp
