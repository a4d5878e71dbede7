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

  // How many updates behind the newest are the weights that it reads.
  int take(const Action& action) {
    switch (action.kind) {
      case ActionKind::kForward:
        return reads(forward[action.micro_batch] = version(action, updates));
      case ActionKind::kInputGradient:
      case ActionKind::kRecompute:
        return reads(version(action, forward[action.micro_batch]));
      case ActionKind::kWeightGradient:
      case ActionKind::kBackward: {
        const int behind = reads(version(action, forward[action.micro_batch]));
        unapplied.push_back(forward[action.micro_batch]);
        forward.erase(action.micro_batch);
        return behind;
      }
      case ActionKind::kUpdate:
        for (const int version : unapplied)
          seen.staleness = std::max(seen.staleness, updates - version);
        unapplied.clear();
        ++updates;
        return 0;
      default:
        return 0;
    }
  }

 private:
  int version(const Action& action, int unsaid) const {
    return action.version == Action::kUnsaid ? unsaid : std::max(0, updates + action.version);
  }
  int reads(int version) {
    seen.kept = std::max(seen.kept, updates - version + 1);
    return updates - version;
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

std::vector<int> updates_behind(const std::vector<Action>& row) {
  std::vector<int> behind;
  std::map<int, Weights> stages;
  for (const Action& action : row) behind.push_back(stages[action.stage].take(action));
  return behind;
}

}  // namespace kerf::schedmp
