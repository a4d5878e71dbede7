#include "schedmp/kept.h"

#include <algorithm>
#include <set>
#include <utility>

namespace kerf::schedmp {

namespace {

// What each action of a row adds to what is kept; a forward that is to be repeated keeps nothing.
class Changes {
 public:
  explicit Changes(const std::vector<Action>& row) : repeated_(recomputed_in(row)) {}

  int of(const Action& action) const {
    switch (action.kind) {
      case ActionKind::kForward:
        return repeated_.contains({action.stage, action.micro_batch}) ? 0 : 1;
      case ActionKind::kRecompute:
      case ActionKind::kReload:
        return 1;
      case ActionKind::kBackward:
      case ActionKind::kWeightGradient:
      case ActionKind::kOffload:
        return -1;
      default:
        return 0;
    }
  }

 private:
  std::set<std::pair<int, int>> repeated_;  // stages' micro-batches
};

}  // namespace

std::vector<int> peak_activations(const Schedule& schedule) {
  std::vector<int> peaks;
  const bool trains = schedule.trains();
  for (const std::vector<Action>& row : schedule.rows) {
    const Changes changes(row);
    int now = 0, most = 0;
    for (const Action& action : row) {
      now += changes.of(action);
      most = std::max(most, now);
    }
    peaks.push_back(trains ? most : 0);
  }
  return peaks;
}

std::vector<Kept> kept_over_time(const Schedule& schedule, const Unfolded& unfolded,
                                 const ActionCosts& costs, int worker) {
  std::vector<Kept> kept;
  const std::vector<Action>& row = schedule.rows[static_cast<size_t>(worker)];
  const std::vector<Interval>& times = unfolded.rows[static_cast<size_t>(worker)];
  const Changes changes(row);
  Kept now;
  for (size_t i = 0; i < times.size(); ++i) {
    const int change = changes.of(row[i]);
    if (change == 0) continue;
    now.time = times[i].end;
    now.micro_batches += change;
    now.bytes += change * costs.bytes_of_stage(row[i].stage).kept;
    kept.push_back(now);
  }
  return kept;
}

KeptPeak peak_of(const std::vector<Kept>& of_worker) {
  KeptPeak peak;
  for (const Kept& each : of_worker) {
    if (each.micro_batches > peak.micro_batches) {
      peak.micro_batches = each.micro_batches;
      peak.time = each.time;
    }
    if (each.bytes > peak.bytes) {
      peak.bytes = each.bytes;
      peak.time_of_bytes = each.time;
    }
  }
  return peak;
}

}  // namespace kerf::schedmp
