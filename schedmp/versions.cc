#include "schedmp/versions.h"

#include <algorithm>
#include <map>

#include "schedmp/verify.h"

namespace kerf::schedmp {

int StageWeights::take(const Action& action, size_t place) {
  switch (action.kind) {
    case ActionKind::kForward:
      return reads(forward_[place] = version(action, updates_));
    case ActionKind::kInputGradient:
    case ActionKind::kRecompute:
      return reads(version(action, forward_[place]));
    case ActionKind::kWeightGradient:
    case ActionKind::kBackward:
      unapplied_.push_back(forward_[place]);
      return reads(version(action, forward_[place]));
    case ActionKind::kUpdate:
      for (const int version : unapplied_)
        seen_.staleness = std::max(seen_.staleness, updates_ - version);
      unapplied_.clear();
      ++updates_;
      return 0;
    default:
      return 0;
  }
}

void StageWeights::restart() {
  updates_ = 0;
  unapplied_.clear();
}

int StageWeights::version(const Action& action, int unsaid) const {
  return action.version == Action::kUnsaid ? unsaid : std::max(0, updates_ + action.version);
}

int StageWeights::reads(int version) {
  seen_.kept = std::max(seen_.kept, updates_ - version + 1);
  return updates_ - version;
}

std::vector<StageVersions> versions_of(const Schedule& schedule) {
  if (schedule.endless()) return versions_of(as_it_is_proved(schedule));
  std::vector<StageVersions> all(static_cast<size_t>(schedule.stages()));
  for (const std::vector<Action>& row : schedule.rows) {
    std::map<int, StageWeights> stages;
    for (const Action& action : row)
      stages.try_emplace(action.stage, schedule.micro_batches)
          .first->second.take(action, static_cast<size_t>(std::max(action.micro_batch, 0)));
    for (const auto& [stage, weights] : stages) {
      StageVersions& most = all[static_cast<size_t>(stage)];
      most.kept = std::max(most.kept, weights.seen().kept);
      most.staleness = std::max(most.staleness, weights.seen().staleness);
    }
  }
  return all;
}

}  // namespace kerf::schedmp
